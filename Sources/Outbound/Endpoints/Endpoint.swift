import Encoding
import Subscriptions

/// Where changes of an app in an environment are delivered, or its notifications are passed on.
package struct Endpoint: Sendable, Hashable {
    package enum Purpose: String, Sendable, CaseIterable {
        /// Each change, in a signed message.
        case changes
        /// The body of each notification, as the store sent it.
        case events
    }

    package enum Signature: String, Sendable, CaseIterable {
        /// A secret that only this endpoint has.
        case v1
        /// The key of the server, whose public half anyone may know.
        case v1a
        /// The body carries the store's signature.
        case none
    }

    package enum State: Sendable, Hashable {
        case active
        case disabled(Reason, at: Instant)

        package var isActive: Bool { self == .active }
    }

    package enum Reason: String, Sendable {
        case `operator`
        /// The receiver answered 410.
        case gone
        /// ``Limits/failingTimeMax`` without a success.
        case failing
        /// The apps file no longer names it.
        case removed
    }

    /// `end_` or `fwd_` and 16 hexadecimal digits.
    package let id: String
    package let purpose: Purpose
    package let stream: StreamKey
    package let url: String
    /// Raw values of ``Change/Kind``, or the sources of events; nil for all.
    package let kinds: [String]?
    package let signature: Signature
    package var state: State
    package let createdAt: Instant

    package init(
        id: String, purpose: Purpose, stream: StreamKey, url: String, kinds: [String]?, signature: Signature,
        state: State = .active, createdAt: Instant
    ) {
        self.id = id
        self.purpose = purpose
        self.stream = stream
        self.url = url
        self.kinds = kinds
        self.signature = signature
        self.state = state
        self.createdAt = createdAt
    }

    /// A new id for changes.
    package static func makeId(using random: inout some RandomNumberGenerator) -> String {
        let digits = String(UInt64.random(in: .min ... .max, using: &random), radix: 16)
        return "end_" + String(repeating: "0", count: 16 - digits.count) + digits
    }
}

/// An endpoint with what has become of its messages.
package struct EndpointStatus: Sendable, Hashable {
    package let endpoint: Endpoint
    /// Everything up to it is settled or recorded.
    package let number: Int64
    /// The end of the feed.
    package let head: Int64
    package let failingSince: Instant?
    package let succeededAt: Instant?
    package let waiting: Int64
    package let exhausted: Int64

    /// `{"id":…,"purpose":…,…}`. The URL is among them: it can contain a secret.
    package func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("id", endpoint.id)
            writer.member("purpose", endpoint.purpose.rawValue)
            writer.member("app", endpoint.stream.app)
            writer.member("environment", endpoint.stream.environment.rawValue)
            writer.member("url", endpoint.url)
            if let kinds = endpoint.kinds {
                writer.key("kinds")
                writer.array(kinds) { $0.value($1) }
            }
            writer.member("signature", endpoint.signature.rawValue)
            writer.member("createdAt", endpoint.createdAt)
            switch endpoint.state {
            case .active: writer.member("state", failingSince == nil ? "active" : "failing")
            case .disabled(let reason, let at):
                writer.member("state", "disabled")
                writer.member("disabledFor", reason.rawValue)
                writer.member("disabledAt", at)
            }
            writer.member("number", number)
            writer.member("behind", max(head - number, 0))
            writer.member("waiting", waiting)
            writer.member("exhausted", exhausted)
            writer.member("failingSince", failingSince)
            writer.member("succeededAt", succeededAt)
        }
    }
}

/// One attempt to deliver a message.
package struct Attempt: Sendable, Hashable {
    package let at: Instant
    package let number: Int64
    package let result: String
    package let status: Int?
    package let milliseconds: Int

    package init(at: Instant, number: Int64, result: String, status: Int?, milliseconds: Int) {
        self.at = at
        self.number = number
        self.result = result
        self.status = status
        self.milliseconds = milliseconds
    }

    package func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("at", at)
            writer.member("number", number)
            writer.member("result", result)
            writer.member("status", status)
            writer.member("milliseconds", milliseconds)
        }
    }
}
