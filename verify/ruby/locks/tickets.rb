# frozen_string_literal: true

require "json"

# The tickets of locks that are handed over: files in a folder, as pinyon_verify/locks/tickets.py says.
class Tickets
  # How often a worker leaves the ticket that it uses to others, who then use it, too.
  SHARED = 0.3

  # The text for +adopt+, the lock's names, and the attempt that had it.
  Ticket = Struct.new(:text, :names, :attempt)

  def initialize(folder, random)
    @folder = folder
    @random = random
  end

  # Puts it where others find it.
  def leave(ticket)
    content = { ticket: ticket.text, names: ticket.names, attempt: ticket.attempt }
    File.write("#{path(ticket)}.new", JSON.dump(content))
    File.rename("#{path(ticket)}.new", path(ticket))
  end

  # A ticket that somebody has left, or nil.
  def find
    path = Dir.glob("#{@folder}/*.ticket").sample(random: @random) or return
    content = JSON.parse(File.read(path))
    File.delete(path) if @random.rand >= SHARED
    Ticket.new(*content.values_at("ticket", "names", "attempt"))
  rescue Errno::ENOENT
    nil
  end

  # Removes a ticket that was used.
  def remove(ticket)
    File.delete(path(ticket))
  rescue Errno::ENOENT
    nil
  end

  private

  def path(ticket)
    File.join(@folder, "#{ticket.attempt}.ticket")
  end
end
