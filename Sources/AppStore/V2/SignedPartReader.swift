import Encoding
import Subscriptions

/// Reads the payloads of transactions, renewal info and app transactions, and collects their defects and unknown fields.
struct SignedPartReader {
    var defects: [Defect] = []
    private(set) var unknownFields: [String] = []

    private static let transactionDetails = [
        "advancedCommerceInfo", "commitmentInfo", "multiSeatInfo", "additionalTransactionReason",
    ]
    private static let renewalDetails = ["advancedCommerceInfo", "commitmentInfo", "multiSeatInfo", "renewalQuantity"]
    /// Known fields without a property of their own in an event.
    private static let knownDetails: Set<String> = Set(
        [
            ("", ["version"]),
            ("data.", ["appAppleId", "bundleVersion", "status", "consumptionRequestReason"]),
            ("data.signedTransactionInfo.", transactionDetails), ("data.signedRenewalInfo.", renewalDetails),
            ("signedTransaction.", transactionDetails), ("signedRenewalInfo.", renewalDetails),
            (
                "summary.",
                [
                    "requestIdentifier", "environment", "bundleId", "appAppleId", "productId",
                    "storefrontCountryCodes", "succeededCount", "failedCount",
                ]
            ),
            (
                "externalPurchaseToken.",
                [
                    "externalPurchaseId", "tokenCreationDate", "appAppleId", "bundleId", "tokenExpirationDate",
                    "tokenType",
                ]
            ),
            ("appData.", ["appAppleId"]),
            ("unclaimInfo.", ["unclaimSeatIds", "environment", "bundleId", "appAppleId", "transactionId"]),
            (
                "appTransaction.",
                [
                    "appAppleId", "appTransactionId", "applicationVersion", "bundleId", "environment",
                    "originalApplicationVersion", "originalPlatform", "originalPurchaseDate", "preorderDate",
                    "receiptCreationDate", "receiptType", "signedDate", "versionExternalIdentifier",
                ]
            ),
        ].flatMap { base, names in names.map { base + $0 } })
    /// Fields that identify a device. They are not stored, since they prove nothing to a server.
    static let deviceFields: Set<String> = ["deviceVerification", "deviceVerificationNonce"]

    /// Reads a transaction.
    ///
    /// - Parameters:
    ///   - base: The path of the JWS in its body.
    ///   - subscription: That of a transaction which names none.
    mutating func transaction(_ jws: JWS, base: StaticString, of subscription: String?) -> Transaction? {
        var fields = JSONFields(jws.payload.root, base: base)
        var transaction = fields.signedTransaction(of: subscription)
        let additional = keep(Self.withoutDevice(fields.rest), base: "\(base).")
        if !additional.isEmpty { transaction?.additional = CanonicalJSON(members: additional) }
        defects += fields.defects
        return transaction
    }

    /// Reads renewal info.
    mutating func renewal(_ jws: JWS, base: StaticString) -> RenewalInfo? {
        var fields = JSONFields(jws.payload.root, base: base)
        var renewal = fields.signedRenewal()
        let additional = keep(Self.withoutDevice(fields.rest), base: "\(base).")
        if !additional.isEmpty { renewal?.additional = CanonicalJSON(members: additional) }
        defects += fields.defects
        return renewal
    }

    /// Returns an app transaction in canonical form.
    mutating func appTransaction(_ jws: JWS) -> CanonicalJSON {
        CanonicalJSON(members: keep(Self.withoutDevice(jws.payload.root.members), base: "appTransaction."))
    }

    /// Returns the fields in canonical form, and records the names of unknown ones.
    mutating func keep(
        _ rest: [(key: JSONValue, value: JSONValue)], base: String
    ) -> [(key: String, value: CanonicalJSON)] {
        rest.map { key, value in
            let name = key.repairedString
            if !Self.knownDetails.contains(base + name) { unknownFields.append(base + name) }
            return (name, CanonicalJSON(value))
        }
    }

    private static func withoutDevice(
        _ members: [(key: JSONValue, value: JSONValue)]
    ) -> [(key: JSONValue, value: JSONValue)] {
        members.filter { !deviceFields.contains($0.key.repairedString) }
    }
}
