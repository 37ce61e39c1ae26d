# frozen_string_literal: true

require "pinyon/template"

module Pinyon
  # Methods and blocks whose results are cached: what a {Client} does with them.
  module Caching
    # Cache the results of a method, or of a block. {Leases#fetch} does the work: of all callers, in all processes, one
    # runs the method, and the others wait for its result.
    #
    #   class Shop
    #     def product(id) = Product.find(id).attributes
    #     PRODUCT = CACHE.cached(:product, of: self, key: "product:{id}", ttl: 60, stale: 30)
    #   end
    #
    #   Shop.new.product(7)        # from the cache
    #   Shop::PRODUCT.invalidate(7)
    #
    #   rate = cache.cached(key: "rate:{currency}", ttl: 60) { |currency| find_rate(currency) }
    #   rate.call("EUR")
    #
    # A result that is nil is cached like any other.
    #
    # @param method [Symbol, String, nil] the name of an instance method; without it, the block is cached
    # @param of [Module, nil] the class of the method; for class methods, its +singleton_class+
    # @param key [String, Proc] the key, with the method's arguments in braces, such as <tt>"product:{id}"</tt> or
    #   <tt>"{self.name}:{id}"</tt>; or a Proc that takes the arguments, runs in the object, and returns the key
    # @param ttl [Numeric, Proc, nil] as for {Leases#fetch}
    # @param terms [Hash] further settings of {Leases#fetch}, by name
    # @return [Cached]
    # @raise [UsageError] the key needs an argument that a call may leave out, a setting makes no sense, or the method
    #   takes a block
    # @raise [NameError] the class has no such method
    def cached(method = nil, key:, of: nil, ttl: nil, **terms, &block)
      # Refuses what fetch refuses in every caller. Whether something goes on behind a caller shows in each call.
      Native::Fetching.new(@native, "", ttl, self, terms.except(:executor))
      terms = { ttl:, **terms }
      return Cached.new(self, key, terms, CachedBlock.new(block)) if block && !method && !of
      unless method && of.is_a?(Module) && !block
        raise UsageError, "cached takes a method and its class, as in cached(:product, of: Shop, key: …), or a block"
      end

      cached = Cached.new(self, key, terms, CachedMethod.new(of.instance_method(method), of))
      of.prepend(cached.replacement)
      cached
    end
  end

  # A method or a block whose results are cached; {Caching#cached} returns it. Its methods take the arguments of the
  # method, and concern the result for these arguments. For a method of objects, {#bind} it to one first, except where
  # the key does without: <tt>Shop::PRODUCT.bind(shop).call(7)</tt>.
  class Cached
    # @api private
    def initialize(client, key, terms, body, receiver = nil)
      @client = client
      @terms = terms
      @body = body
      @receiver = receiver
      @key = key.respond_to?(:call) ? key : Template.new(text_of(key), body.parameters, body.name, body.bound?)
    end

    # The same method, of an object.
    #
    # @param receiver [Object]
    # @return [Cached]
    # @raise [TypeError] the object does not have the method
    def bind(receiver)
      @body.check(receiver)
      bound = clone
      bound.instance_variable_set(:@receiver, receiver)
      bound
    end

    # The result, from the cache. If it is not there, one caller runs the method.
    #
    # @return [Object]
    # @raise [LeaseTimeout] as {Leases#fetch}
    def call(*arguments, **keywords)
      result(@receiver, arguments, keywords)
    end
    alias [] call
    alias === call
    alias yield call

    # The key of the result, without the client's namespace.
    #
    # @return [String]
    def key(*arguments, **keywords)
      key_of(@receiver, arguments, keywords)
    end

    # Delete the result. The next call runs the method; a call that is under way stores nothing.
    #
    # @return [Boolean] whether there was a result
    def invalidate(...)
      @client.delete(key(...))
    end

    # Run the method, and store its result in place of what is there. Until then, others get the old result. If the
    # method fails, the old result stays. Calls that began before the result was stored cannot overwrite it. Of several
    # refreshes at the same time, the one that stores last counts.
    #
    # @return [Object] the new result
    def refresh(*arguments, **keywords)
      # It waits for the method whatever the terms say, so it works where nothing can go on behind a caller.
      @client.make_anew(key_of(@receiver, arguments, keywords), **@terms.except(:soft_timeout, :refresh)) do
        @body.run(@receiver, arguments, keywords)
      end
    end

    # The result from the cache, or nil. The method does not run.
    #
    # @return [Object, nil]
    def peek(...)
      @client.get(key(...))
    end

    # For blocks: <tt>ids.map(&product)</tt>.
    #
    # @return [Proc]
    def to_proc
      method(:call).to_proc
    end

    # The method and its key, for people.
    #
    # @return [String]
    def inspect
      "#<#{self.class} #{@body.name} #{@key.is_a?(Template) ? @key.text.inspect : "by a Proc"}>"
    end

    # What takes the place of the method in its class.
    #
    # @api private
    def replacement
      @body.replaced(&method(:result))
    end

    private

    def result(receiver, arguments, keywords)
      @client.fetch(key_of(receiver, arguments, keywords), **@terms) { @body.run(receiver, arguments, keywords) }
    end

    def key_of(receiver, arguments, keywords)
      return @key.fill(receiver, arguments, keywords) if @key.is_a?(Template)

      receiver.nil? ? @key.call(*arguments, **keywords) : receiver.instance_exec(*arguments, **keywords, &@key)
    end

    def text_of(key)
      return key if key.is_a?(String) && !key.empty?

      raise UsageError, "key is a String such as \"product:{id}\", or a Proc, not #{key.inspect}"
    end
  end

  # The body of a {Cached} that is a method.
  #
  # @api private
  class CachedMethod
    attr_reader :name

    def initialize(method, owner)
      @method = method
      @owner = owner
      @name = "#{owner}##{method.name}"
      return if parameters.none? { |kind,| kind == :block }

      raise UsageError, "#{@name} takes a block, which is no part of a key: cache a method without one"
    end

    def parameters
      @method.parameters
    end

    def bound?
      true
    end

    def check(receiver)
      @method.bind(receiver)
    end

    def run(receiver, arguments, keywords)
      raise UsageError, "#{@name} runs in an object: bind it to one, by bind(object)" if receiver.nil?

      @method.bind_call(receiver, *arguments, **keywords)
    end

    # A module to prepend, whose method is as visible as the method that it replaces.
    def replaced(&call)
      name = @method.name
      visibility = %i[private protected].find { |each| @owner.public_send(:"#{each}_method_defined?", name) } || :public
      Module.new do
        define_method(name) { |*arguments, **keywords| call.call(self, arguments, keywords) }
        send(visibility, name)
      end
    end
  end

  # The body of a {Cached} that is a block.
  #
  # @api private
  class CachedBlock
    attr_reader :parameters

    def initialize(block)
      @block = block
      # As those of a method: a block by itself leaves out any argument.
      @parameters = Module.new { define_method(:block, &block) }.instance_method(:block).parameters
    end

    def name
      "the block"
    end

    def bound?
      false
    end

    def check(_receiver)
      raise UsageError, "a cached block belongs to no object: call it without bind"
    end

    def run(_receiver, arguments, keywords)
      @block.call(*arguments, **keywords)
    end
  end
end
