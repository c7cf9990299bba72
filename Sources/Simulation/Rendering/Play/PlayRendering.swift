import Encoding

/// The forms that Google's answers and messages have today or had once.
package struct PlayRendering: Sendable, Hashable {
    package var packageName: String
    /// Items show `offerPhase`, which answers have since January 2026.
    package var showsOfferPhase = false
    /// Grace and hold show `inGracePeriodStateContext` and `onHoldStateContext`, which are newer still.
    package var showsStateContexts = false
    /// Times have nine digits after the second, instead of as many as needed.
    package var hasNanoseconds = false
    /// `voidedSource` and `voidedReason` are texts, as in the example of Google's page.
    package var hasVoidCodesAsText = false
    /// Messages have `subscriptionId`, which ends in August 2027.
    package var sendsSubscriptionId = true

    package init(packageName: String) {
        self.packageName = packageName
    }

    /// `2025-10-12T01:23:45.678Z`, in UTC.
    func time(_ instant: Instant) -> String {
        let text = instant.description
        if hasNanoseconds { return text.dropLast() + "419203Z" }
        return instant.milliseconds % 1000 == 0 ? text.prefix(19) + "Z" : text
    }
}

extension JSONWriter {
    /// Writes a member only if it is true: Google's answers leave false out.
    mutating func flag(_ key: StaticString, _ value: Bool) {
        if value { member(key, true) }
    }

    mutating func time(_ key: StaticString, _ instant: Instant?, _ rendering: PlayRendering) {
        guard let instant else { return }
        member(key, rendering.time(instant))
    }

    /// Writes milliseconds since 1970 as a text, like every number of 64 bits in Google's answers.
    mutating func millisecondsText(_ key: StaticString, _ instant: Instant?) {
        guard let instant else { return }
        member(key, String(instant.milliseconds))
    }

    mutating func emptyObject(_ key: StaticString) {
        self.key(key)
        object { _ in }
    }

    /// Writes an amount of money. Units and nanos that are 0 are left out.
    ///
    /// - Parameter thousandths: Of the currency's unit.
    mutating func money(_ key: StaticString, _ currency: String, thousandths: Int64) {
        self.key(key)
        object { writer in
            writer.member("currencyCode", currency)
            if thousandths / 1000 != 0 { writer.member("units", String(thousandths / 1000)) }
            if thousandths % 1000 != 0 { writer.member("nanos", thousandths % 1000 * 1_000_000) }
        }
    }

    /// Writes the ids that the app set at the purchase. Those that it did not set are left out.
    mutating func accounts(_ account: PlayAccount) {
        member("externalAccountId", account.externalAccountId)
        member("obfuscatedExternalAccountId", account.obfuscatedAccountId)
        member("obfuscatedExternalProfileId", account.obfuscatedProfileId)
    }
}

extension PlayAccount {
    var isEmpty: Bool { self == .none }
}
