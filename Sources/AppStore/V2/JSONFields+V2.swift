import Encoding
import Subscriptions

extension JSONFields {
    /// Reads a signed transaction (`JWSTransactionDecodedPayload`).
    ///
    /// - Parameter subscription: The subscription that the notification's renewal info names, for a transaction that
    ///   omits its own.
    /// - Returns: Nil, with a defect, if the transaction has no id.
    mutating func signedTransaction(of subscription: String?) -> Transaction? {
        guard let transactionId = identifier("transactionId") else {
            note("transactionId", "is missing, the transaction is passed over")
            return nil
        }
        guard let originalTransactionId = identifier("originalTransactionId") ?? subscription else {
            note("originalTransactionId", "is missing, the transaction is passed over")
            return nil
        }
        var row = Transaction(transactionId: transactionId, originalTransactionId: originalTransactionId)
        row.setFields(with: &self)
        row.statesRevocation = unreadableKeys.isDisjoint(with: ["revocationDate", "isUpgraded"])
        if !unreadableKeys.isDisjoint(with: ["revocationType", "revocationReason"]) {
            row.revocationType = row.revocationType ?? Transaction.unreadable
        }
        if unreadableKeys.contains("inAppOwnershipType") { row.inAppOwnershipType = Transaction.unreadable }
        note(row.allUnknownValues, named: \.name)
        noteDuration(of: row, "expiresDate")
        row.signedDate = instant("signedDate")
        for key: StaticString in ["bundleId", "environment"] { _ = raw(key) }
        return row
    }

    /// Reads signed renewal info (`JWSRenewalInfoDecodedPayload`). Returns nil, with a defect, if it names no
    /// subscription.
    mutating func signedRenewal() -> RenewalInfo? {
        guard let subscription = identifier("originalTransactionId") else {
            note("originalTransactionId", "is missing, the renewal info is passed over")
            return nil
        }
        var renewal = RenewalInfo(originalTransactionId: subscription)
        renewal.setFields(with: &self)
        note(renewal.unknownValues, named: \.name)
        renewal.signedDate = instant("signedDate")
        _ = raw("environment")
        return renewal
    }
}

/// Reads the fields of signed payloads; other fields keep their values.
extension JSONFields: FieldVisitor {
    package mutating func visit(_ field: Field, _ source: String?, _ target: inout String?) {
        switch field.kind {
        case .identifier: target = identifier(field.name)
        case .accountToken: target = accountToken(field.name)
        case .signed, .revocation: target = text(field.name)
        case .unsigned, .derived, .ofOrder, .folded: break
        }
    }

    package mutating func visit(_ field: Field, _ source: Int?, _ target: inout Int?) {
        if field.isSigned { target = integer(field.name) }
    }

    package mutating func visit(_ field: Field, _ source: Int64?, _ target: inout Int64?) {
        if field.isSigned { target = integer64(field.name) }
    }

    package mutating func visit(_ field: Field, _ source: Bool?, _ target: inout Bool?) {
        if field.isSigned { target = flag(field.name) }
    }

    package mutating func visit(_ field: Field, _ source: Instant?, _ target: inout Instant?) {
        if field.isSigned { target = instant(field.name) }
    }

    package mutating func visit(_ field: Field, _ source: [String], _ target: inout [String]) {
        if field.isSigned { target = texts(field.name) }
    }

    package mutating func visit(_ field: Field, _ source: Bool, _ target: inout Bool, absent: Bool) {
        if field.isSigned { target = flag(field.name) ?? absent }
    }
}
