import Foundation

/// Verifies the messages of a sender.
public struct WebhookVerifier: Sendable {
    /// The time by which the timestamp of an attempt may differ from the receiver's clock, in either direction.
    public static let usualTolerance: Duration = .seconds(300)

    private let keys: [VerificationKey]
    private let tolerance: Duration

    /// - Parameters:
    ///   - keys: One is enough for a message. During a rotation, the new and the old one. Without any, nothing is valid.
    ///   - tolerance: At least zero.
    public init(keys: [VerificationKey], tolerance: Duration = usualTolerance) {
        self.keys = keys
        self.tolerance = tolerance
    }

    /// Returns if one of the signatures was made with one of the keys and the attempt is recent.
    ///
    /// A message that was verified may be a repetition: a receiver remembers its id.
    ///
    /// - Parameters:
    ///   - body: The bytes as they arrived, before they are parsed.
    ///   - now: The receiver's clock.
    public func verify(
        _ body: some DataProtocol, _ headers: WebhookHeaders, now: Date
    ) throws(VerificationError) {
        guard !headers.id.isEmpty else { throw .missingHeader(WebhookHeaders.idName) }
        guard !headers.timestamp.isEmpty else { throw .missingHeader(WebhookHeaders.timestampName) }
        guard !headers.signature.isEmpty else { throw .missingHeader(WebhookHeaders.signatureName) }
        guard headers.timestamp.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }),
            let seconds = Int64(headers.timestamp)
        else { throw .malformedTimestamp }
        let age = now.timeIntervalSince1970 - Double(seconds)
        let most = Double(tolerance.components.seconds)
        if age > most { throw .tooOld }
        if age < -most { throw .tooNew }
        let content = WebhookHeaders.content(headers.id, headers.timestamp, body)
        var isValid = false
        // All are compared, so that the time does not tell which key signed.
        for signature in headers.signature.split(separator: " ").compactMap(Signature.init) {
            for key in keys where key.accepts(signature, of: content) { isValid = true }
        }
        guard isValid else { throw .noMatchingSignature }
    }

    /// As ``verify(_:_:now:)``, with headers by name.
    ///
    /// - Parameter header: Returns the value of a header, whatever the case of its name; nil without it.
    public func verify(
        _ body: some DataProtocol, now: Date, header: (String) -> String?
    ) throws(VerificationError) {
        let headers = WebhookHeaders(
            id: header(WebhookHeaders.idName) ?? "", timestamp: header(WebhookHeaders.timestampName) ?? "",
            signature: header(WebhookHeaders.signatureName) ?? "")
        try verify(body, headers, now: now)
    }
}

/// Why a message is not accepted. A receiver answers each with status 400 or 401, and does not act on the message.
public enum VerificationError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The header of this name is missing or empty.
    case missingHeader(String)
    /// The timestamp is not a number of seconds.
    case malformedTimestamp
    /// The attempt is older than the tolerance, so it may be a replay by a third party.
    case tooOld
    /// The attempt is further ahead of the receiver's clock than the tolerance.
    case tooNew
    /// No signature was made with any of the keys.
    case noMatchingSignature

    public var description: String {
        switch self {
        case .missingHeader(let name): "header \(name) is missing"
        case .malformedTimestamp: "header \(WebhookHeaders.timestampName) is not a number of seconds"
        case .tooOld: "the message was sent too long ago"
        case .tooNew: "the message was sent in the future"
        case .noMatchingSignature: "no signature matches"
        }
    }
}
