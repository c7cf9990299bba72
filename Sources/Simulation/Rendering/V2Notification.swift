import Encoding

/// The payload of a signed notification, with Apple's field names. Nil fields are omitted.
package struct V2Notification: Sendable {
    /// The content of a notification, which has exactly one of these.
    package enum Content: Sendable {
        case data(V2Data)
        case summary(V2Summary)
        /// The members of the object, as JSON.
        case externalPurchaseToken(json: [UInt8])
        /// The members of the object, as JSON.
        case appData(json: [UInt8])
        /// The members of the object, as JSON.
        case unclaimInfo(json: [UInt8])
    }

    package var notificationType: String
    package var subtype: String?
    package var notificationUUID: String
    package var version: String? = "2.0"
    package var signedDate: Instant
    package var content: Content

    package init(
        _ notificationType: String, _ subtype: String? = nil, notificationUUID: String, signedDate: Instant,
        content: Content
    ) {
        self.notificationType = notificationType
        self.subtype = subtype
        self.notificationUUID = notificationUUID
        self.signedDate = signedDate
        self.content = content
    }

    /// The JSON text to sign. The transaction and renewal info inside are already signed.
    package func payload(_ signer: JWSSigner, _ signatures: inout SignatureTape) -> [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("notificationType", notificationType)
            writer.member("subtype", subtype)
            writer.member("notificationUUID", notificationUUID)
            switch content {
            case .data(let data):
                writer.key("data")
                data.write(to: &writer, signer, &signatures)
            case .summary(let summary):
                writer.key("summary")
                summary.write(to: &writer)
            case .externalPurchaseToken(let json):
                writer.key("externalPurchaseToken")
                writer.value(rawJSON: json)
            case .appData(let json):
                writer.key("appData")
                writer.value(rawJSON: json)
            case .unclaimInfo(let json):
                writer.key("unclaimInfo")
                writer.value(rawJSON: json)
            }
            writer.member("version", version)
            writer.milliseconds("signedDate", signedDate)
        }
        return writer.bytes
    }

    /// The request body: `{"signedPayload":"…"}`.
    package func body(_ signer: JWSSigner, _ signatures: inout SignatureTape) -> [UInt8] {
        Self.body(signedPayload: signer.sign(payload(signer, &signatures), &signatures))
    }

    package func body(_ signer: JWSSigner) -> [UInt8] {
        var tape = SignatureTape()
        return body(signer, &tape)
    }

    private static let bodyStart = Array("{\"signedPayload\":\"".utf8)
    private static let bodyEnd = Array("\"}".utf8)

    package static func body(signedPayload: [UInt8]) -> [UInt8] { bodyStart + signedPayload + bodyEnd }

    /// The reverse of ``body(signedPayload:)``.
    package static func signedPayload(in body: [UInt8]) -> [UInt8] {
        Array(body.dropFirst(bodyStart.count).dropLast(bodyEnd.count))
    }
}

/// The member `data` of a notification.
package struct V2Data: Sendable {
    package var appAppleId: Int64?
    package var bundleId: String?
    package var bundleVersion: String?
    package var environment: String?
    package var transaction: V2Transaction?
    package var renewalInfo: V2RenewalInfo?
    package var status: Int?
    package var consumptionRequestReason: String?
    /// Signed texts that replace `transaction` and `renewalInfo`.
    package var signedTransactionInfo: String?
    package var signedRenewalInfo: String?

    package init(app: SimulatedApp) {
        appAppleId = app.appAppleId
        bundleId = app.bundleId
        bundleVersion = app.bundleVersion
        environment = app.environmentName
    }

    fileprivate func write(to writer: inout JSONWriter, _ signer: JWSSigner, _ signatures: inout SignatureTape) {
        func signed(_ payload: [UInt8]?) -> String? {
            payload.map { String(decoding: signer.sign($0, &signatures), as: UTF8.self) }
        }
        writer.object { writer in
            writer.member("appAppleId", appAppleId)
            writer.member("bundleId", bundleId)
            writer.member("bundleVersion", bundleVersion)
            writer.member("environment", environment)
            writer.member("signedTransactionInfo", signedTransactionInfo ?? signed(transaction?.json))
            writer.member("signedRenewalInfo", signedRenewalInfo ?? signed(renewalInfo?.json))
            writer.member("status", status)
            writer.member("consumptionRequestReason", consumptionRequestReason)
        }
    }
}

/// The member `summary`: the result of extending many subscriptions at once.
package struct V2Summary: Sendable {
    package var requestIdentifier: String
    package var environment: String
    package var appAppleId: Int64?
    package var bundleId: String
    package var productId: String
    package var storefrontCountryCodes: [String]
    package var succeededCount: Int64
    package var failedCount: Int64

    package init(
        app: SimulatedApp, requestIdentifier: String, productId: String, storefrontCountryCodes: [String] = [],
        succeededCount: Int64, failedCount: Int64
    ) {
        self.requestIdentifier = requestIdentifier
        environment = app.environmentName
        appAppleId = app.appAppleId
        bundleId = app.bundleId
        self.productId = productId
        self.storefrontCountryCodes = storefrontCountryCodes
        self.succeededCount = succeededCount
        self.failedCount = failedCount
    }

    fileprivate func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("requestIdentifier", requestIdentifier)
            writer.member("environment", environment)
            writer.member("appAppleId", appAppleId)
            writer.member("bundleId", bundleId)
            writer.member("productId", productId)
            if !storefrontCountryCodes.isEmpty {
                writer.key("storefrontCountryCodes")
                writer.array(storefrontCountryCodes) { $0.value($1) }
            }
            writer.member("succeededCount", succeededCount)
            writer.member("failedCount", failedCount)
        }
    }
}
