import Encoding
import Subscriptions

/// A decoded version 2 notification. Not verified, so it must not be trusted.
package struct V2Notification: Sendable {
    /// The signed parts of a notification, each named by its path.
    package enum Part: String, Sendable, CaseIterable {
        case notification = "signedPayload"
        case transaction = "data.signedTransactionInfo"
        case renewal = "data.signedRenewalInfo"
        case appTransaction = "appData.signedAppTransactionInfo"
    }

    package let notification: JWS
    package let transaction: JWS?
    package let renewal: JWS?
    package let appTransaction: JWS?
    /// The app and environment that the notification names.
    let claim: AppClaim

    /// - Parameter text: The JWS of the notification.
    /// - Throws: ``UndecodableBody`` if it or a part inside it is not a JWS, or if it has no `notificationType`: Apple
    ///   signs other objects with the same certificates. Other missing or unreadable fields become defects of the
    ///   event.
    package init(decoding text: ArraySlice<UInt8>) throws(UndecodableBody) {
        let notification = try Self.decode(text, .notification)
        guard let type = notification.payload.root["notificationType"], !type.isNull else { throw .notANotification }
        self.init(
            notification: notification,
            transaction: try Self.inner(notification, "data", "signedTransactionInfo", .transaction),
            renewal: try Self.inner(notification, "data", "signedRenewalInfo", .renewal),
            appTransaction: try Self.inner(notification, "appData", "signedAppTransactionInfo", .appTransaction))
    }

    private init(notification: JWS, transaction: JWS?, renewal: JWS?, appTransaction: JWS?) {
        self.notification = notification
        self.transaction = transaction
        self.renewal = renewal
        self.appTransaction = appTransaction
        claim = AppClaim(notification: notification.payload.root)
    }

    private static func inner(
        _ notification: JWS, _ container: StaticString, _ key: StaticString, _ part: Part
    ) throws(UndecodableBody) -> JWS? {
        guard let value = notification.payload.root[container]?[key], value.isString else { return nil }
        // A slice of the payload where possible: its place there is needed to store it decoded.
        let text = value.isEscaped ? value.unescapedBytes[...] : notification.payload.bytes[value.contentRange]
        return try decode(text, part)
    }

    private static func decode(_ text: ArraySlice<UInt8>, _ part: Part) throws(UndecodableBody) -> JWS {
        do throws(MalformedJWS) {
            return try JWS(text)
        } catch {
            throw .malformed(error, part)
        }
    }

    /// The body to store: `{"signedPayload":"…"}` with the signed text as it arrived. Other members of the received
    /// body are not signed and are dropped.
    package var evidence: Evidence {
        let inner = [transaction, renewal, appTransaction].compactMap { $0?.content }
        return Evidence([
            .bytes(Self.textBefore), .jws(notification.content.containing(inner)), .bytes(Self.textAfter),
        ])
    }

    private static let textBefore = Array("{\"signedPayload\":\"".utf8)[...]
    private static let textAfter = Array("\"}".utf8)[...]

    /// The notification and the signed parts inside it.
    var parts: [(part: Part, jws: JWS)] {
        [(Part.notification, notification)]
            + [(.transaction, transaction), (.renewal, renewal), (.appTransaction, appTransaction)]
            .compactMap { part, jws in jws.map { (part, $0) } }
    }

    package var environment: Environment? { claim.environment }

    /// The time of signing. The first notifications stated none; their parts were signed at the same time.
    var signedDate: Instant? {
        notification.signedDate ?? [transaction, renewal, appTransaction].compactMap { $0?.signedDate }.max()
    }
}

/// The app and environment that a signed object names.
struct AppClaim {
    var bundleId: String?
    var appAppleId: Int64?
    /// Nil if none is named; ``Environment/unknown`` if this version does not know the name.
    var environment: Environment?

    /// - Parameter root: The payload of a notification.
    init(notification root: JSONValue) {
        if let subject = Self.subject(of: root) { self.init(subject) } else { self.init() }
        // Tokens name no environment, but ids of sandbox tokens begin with SANDBOX.
        if let token = root["externalPurchaseToken"], environment == nil {
            environment = token["externalPurchaseId"]?.string?.hasPrefix("SANDBOX") == true ? .sandbox : .production
        }
    }

    private init() {}

    /// The object that contains the app and the environment. Its key depends on the notification's type; for unknown
    /// types, and for seats, it is the first object with a bundle id, or the notification itself.
    private static func subject(of root: JSONValue) -> JSONValue? {
        for key: StaticString in ["data", "summary", "appData", "externalPurchaseToken"] {
            if let object = root[key] { return object }
        }
        let object = root.members.map(\.value).first { $0["bundleId"]?.isString == true }
        if let object { return object }
        return root["bundleId"]?.isString == true ? root : root["unclaimInfo"]
    }

    /// - Parameter object: Something signed inside a notification, or the part of one that names the app.
    init(_ object: JSONValue) {
        var fields = JSONFields(object)
        bundleId = fields.text("bundleId")
        appAppleId = fields.integer64("appAppleId")
        // App transactions call the environment `receiptType`.
        let name = fields.text("environment") ?? fields.text("receiptType")
        environment = name.map { Environment(v2Name: $0) ?? .unknown }
    }
}

extension Environment {
    /// Nil unless the text is an environment's name in signed objects, in any case.
    package init?(v2Name name: String) {
        switch name.lowercased() {
        case "production": self = .production
        case "sandbox": self = .sandbox
        case "xcode": self = .xcode
        case "localtesting": self = .localTesting
        default: return nil
        }
    }

    /// True for environments whose data is not signed by Apple.
    package var isLocal: Bool { self == .xcode || self == .localTesting }
}
