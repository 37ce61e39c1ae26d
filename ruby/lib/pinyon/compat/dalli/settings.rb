# frozen_string_literal: true

module Pinyon
  module Compat
    module Dalli
      # Pinyon's settings for Dalli's servers and options.
      #
      # @api private
      module Settings
        # The largest value that is read, in bytes: what a client writes is bounded by its own +value_max_bytes+.
        MOST_READ = 128 * 1024 * 1024
        TIMEOUT = 1

        module_function

        # @param servers [String, Array<String>, nil]
        # @return [Array<String>] nothing for those of the environment
        def servers(servers)
          return [] if servers.nil?

          unless servers.is_a?(String) || (servers.is_a?(Array) && servers.all?(String))
            raise ArgumentError, "servers are a String with commas between them, or an Array of Strings, " \
                                 "not #{servers.inspect}"
          end

          Array(servers).flat_map { |listed| listed.split(",") }.map(&:strip).reject(&:empty?)
        end

        def of(options, namespace)
          timeout = options[:socket_timeout] || TIMEOUT
          {
            ring: "dalli", key_rule: "dalli", namespace:, serializer: AsStored,
            timeout:, connect_timeout: timeout / 2.0, failover: options.fetch(:failover, true) != false,
            max_value_size: MOST_READ, tls: tls(options[:ssl_context]), **options.fetch(:pinyon, {})
          }
        end

        # @param context [OpenSSL::SSL::SSLContext, Hash, true, nil]
        def tls(context)
          return if context.nil?
          return context if context == true || context.is_a?(Hash)

          unreadable = %i[cert key ca_path cert_store].select { |part| context.public_send(part) }
          unreadable.delete(:cert_store) if context.cert_store.equal?(OpenSSL::SSL::SSLContext::DEFAULT_CERT_STORE)
          return of_context(context) if unreadable.empty?

          raise ArgumentError, "ssl_context has #{unreadable.join(" and ")}, which cannot be read from it: pass " \
                               "ssl_context: { ca: FILE, certificate: FILE, key: FILE } instead"
        end

        def of_context(context)
          return { accept_any_certificate_which_is_dangerous: true } if context.verify_mode == OpenSSL::SSL::VERIFY_NONE

          context.ca_file ? { ca: context.ca_file } : true
        end
      end
    end
  end
end
