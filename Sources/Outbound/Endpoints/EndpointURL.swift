import Foundation

/// The URL of an endpoint.
package struct EndpointURL: Sendable, Hashable {
    package let text: String
    /// The host without brackets.
    package let host: String

    /// - Parameter allowsPrivate: Accepts `http` and addresses that are not public.
    /// - Throws: Says what is wrong. Whether the host's name has a public address shows only when a message is sent.
    package init(_ text: String, allowsPrivate: Bool) throws(Malformed) {
        guard text.utf8.count <= Limits.urlBytesMax else { throw .tooLong }
        guard text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }), var components = URLComponents(string: text),
            let scheme = components.scheme?.lowercased(), let named = components.host?.lowercased(), !named.isEmpty
        else { throw .noURL }
        guard scheme == "https" || allowsPrivate && scheme == "http" else { throw .scheme }
        guard components.user == nil, components.password == nil else { throw .credentials }
        guard components.fragment == nil else { throw .fragment }
        if let port = components.port, !(1...65_535).contains(port) { throw .port }
        let host = named.hasPrefix("[") ? String(named.dropFirst().dropLast()) : named
        // Texts such as 127.1 or 0x7f000001 are addresses to a resolver.
        if let address = NetworkAddress(host) {
            guard allowsPrivate || address.isPublic else { throw .notPublic }
        } else if host.split(separator: ".").last?.first?.isNumber ?? true || !host.utf8.allSatisfy(Self.isOfName) {
            throw .noURL
        }
        if !allowsPrivate, host == "localhost" || host.hasSuffix(".localhost") { throw .notPublic }
        // In the form in which the HTTP client spells it, so that the pinned address is used.
        components.scheme = scheme
        components.host = named
        guard let normal = components.string else { throw .noURL }
        self.text = normal
        self.host = host
    }

    private static func isOfName(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"),
            UInt8(ascii: "."), UInt8(ascii: "_"):
            true
        default: false
        }
    }

    package enum Malformed: Error, Hashable, Sendable, CustomStringConvertible {
        case tooLong, noURL, scheme, credentials, fragment, port, notPublic

        package var description: String {
            switch self {
            case .tooLong: "the URL is longer than \(Limits.urlBytesMax) bytes"
            case .noURL: "not a URL: expected https://host/path"
            case .scheme: "the URL must begin with https://"
            case .credentials: "the URL must not contain a user or password"
            case .fragment: "the URL must not contain a fragment"
            case .port: "the port of the URL must be from 1 to 65535"
            case .notPublic: "the URL has an address that is not public: see --allow-private-endpoints"
            }
        }
    }
}
