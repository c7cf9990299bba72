/// A value that this version does not know, in a field that decides how access ends: it ends access at its stated date,
/// and nothing else follows from it.
package enum UnknownValue {
    package enum Field: Sendable, Hashable {
        case revocationType, revocationReason, inAppOwnershipType

        /// The name in signed payloads.
        package var name: StaticString {
            switch self {
            case .revocationType: "revocationType"
            case .revocationReason: "revocationReason"
            case .inAppOwnershipType: "inAppOwnershipType"
            }
        }

        /// The name in receipts.
        package var receiptName: StaticString {
            switch self {
            case .revocationType: "cancellation_date_ms"
            case .revocationReason: "cancellation_reason"
            case .inAppOwnershipType: "in_app_ownership_type"
            }
        }
    }

    /// Longest value that a defect or an explanation repeats.
    private static let charactersMax = 60

    /// The value as a defect or an explanation names it: ASCII without quotes and control characters, cut if it is long.
    package static func short(_ value: String) -> String {
        String(
            value.unicodeScalars.prefix(charactersMax).map { scalar -> Character in
                scalar.isASCII && scalar.value >= 0x20 && scalar.value != 0x7F && scalar != "\""
                    ? Character(scalar) : "?"
            })
    }

    /// The problem of a defect about the value.
    ///
    /// - Parameter effect: What follows from it.
    package static func problem(
        _ value: String, effect: String = "a revocation ends access at its date and nothing else"
    ) -> String {
        "is \"\(short(value))\", which this version does not know: \(effect)"
    }
}
