import Crypto
import Encoding
import Subscriptions

/// A place to which the apps file wants notifications passed on.
package struct Forward: Sendable, Hashable {
    package let stream: StreamKey
    package let url: String
    /// Raw values of ``EventSource``, sorted; nil for all that stores push.
    package let sources: [String]?

    package init(stream: StreamKey, url: String, sources: [String]?) {
        self.stream = stream
        self.url = url
        self.sources = sources.map { Set($0).sorted() }
    }

    /// The sources of what stores push.
    package static let pushed = EventFeed.pushed

    /// `fwd_` and a digest of app, environment and URL, so the place in the log is found again after a restart.
    package var id: String {
        let text = [stream.app, stream.environment.rawValue, url].joined(separator: "\n")
        return "fwd_" + Hex.text(Array(SHA256.hash(data: Array(text.utf8)).prefix(8)))
    }

    func endpoint(createdAt: Instant) -> Endpoint {
        Endpoint(
            id: id, purpose: .events, stream: stream, url: url, kinds: sources, signature: .none, createdAt: createdAt)
    }
}
