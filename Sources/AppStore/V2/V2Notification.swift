import Encoding
import Subscriptions

/// A version 2 notification as its sender wrote it: decoded, and not to be trusted.
package struct V2Notification: Sendable {
    /// The signed texts that a notification is made of, named by where they stand.
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
    /// The app, as the notification names it.
    let claim: AppClaim

    /// - Parameter text: The JWS of the notification.
    /// - Throws: ``UndecodableBody`` if it or one inside it is no JWS, or if it has no `notificationType`: Apple signs
    ///   other objects with the same certificates. Other odd or missing fields are no reason: they become defects of
    ///   the event.
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

    /// The body as Apple posts it: the signed text alone. Apple does not sign what surrounds it in a request.
    package var evidence: Evidence {
        let inner = [transaction, renewal, appTransaction].compactMap { $0?.content }
        return Evidence([
            .bytes(Self.textBefore), .jws(notification.content.containing(inner)), .bytes(Self.textAfter),
        ])
    }

    private static let textBefore = Array("{\"signedPayload\":\"".utf8)[...]
    private static let textAfter = Array("\"}".utf8)[...]

    /// The notification and what is signed inside it.
    var parts: [(part: Part, jws: JWS)] {
        [(Part.notification, notification)]
            + [(.transaction, transaction), (.renewal, renewal), (.appTransaction, appTransaction)]
            .compactMap { part, jws in jws.map { (part, $0) } }
    }

    package var environment: Environment? { claim.environment }
}

/// Which app and environment a signed object says it is of.
struct AppClaim {
    var bundleId: String?
    var appAppleId: Int64?
    /// Nil when none is named, ``Environment/unknown`` when it is none that Apple uses.
    var environment: Environment?

    /// - Parameter root: The payload of a notification.
    init(notification root: JSONValue) {
        if let subject = Self.subject(of: root) { self.init(subject) } else { self.init() }
        // Tokens name no environment. Those of the sandbox have ids that begin so.
        if let token = root["externalPurchaseToken"], environment == nil {
            environment = token["externalPurchaseId"]?.string?.hasPrefix("SANDBOX") == true ? .sandbox : .production
        }
    }

    private init() {}

    /// The object that says what the notification is about. Which one it is depends on the type; newer types may bring
    /// their own.
    private static func subject(of root: JSONValue) -> JSONValue? {
        root["data"] ?? root["summary"] ?? root["appData"] ?? root["externalPurchaseToken"]
            ?? root.members.map(\.value).first { $0["bundleId"]?.isString == true }
    }

    /// - Parameter object: Something signed inside a notification, or the part of one that names the app.
    init(_ object: JSONValue) {
        var fields = JSONFields(object)
        bundleId = fields.text("bundleId")
        appAppleId = fields.integer64("appAppleId")
        // App transactions write the environment under an older name.
        let name = fields.text("environment") ?? fields.text("receiptType")
        environment = name.map { Environment(v2Name: $0) ?? .unknown }
    }
}

extension Environment {
    /// By the name in signed objects.
    package init?(v2Name name: String) {
        switch name.lowercased() {
        case "production": self = .production
        case "sandbox": self = .sandbox
        case "xcode": self = .xcode
        case "localtesting": self = .localTesting
        default: return nil
        }
    }

    /// Data of these is not signed by Apple.
    package var isLocal: Bool { self == .xcode || self == .localTesting }
}
