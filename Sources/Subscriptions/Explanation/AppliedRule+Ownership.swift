import Encoding

// The rules of ownership, each made where they are applied.

extension Ownership.Reason {
    /// The rule that makes a customer the owner for this reason.
    package var rule: ExplanationRule {
        switch self {
        case .link: .tiedByLink
        case .account: .tiedByAccountToken
        case .storeAccount: .tiedByStoreAccount
        case .unclaimed: .unclaimed
        case .seat: .tiedBySeat
        }
    }
}

extension AppliedRule {
    static func owning(_ owned: Ownership) -> AppliedRule {
        AppliedRule(
            owned.reason.rule, of: owned.originalTransactionId.text, period: owned.from..<max(owned.from, owned.until),
            positions: owned.position.map { [$0] } ?? [], customer: owned.owner)
    }

    /// The end of an interval of ownership by the purchase of the next owner.
    static func losing(_ owned: Ownership, to purchase: OwnershipEvidence.Purchase) -> AppliedRule {
        AppliedRule(
            .latestBuyer, of: owned.originalTransactionId.text, causeTransactionId: purchase.transactionId.text,
            at: purchase.purchaseDate, positions: [purchase.position], customer: owned.owner)
    }

    /// The end of a seat.
    static func losing(_ held: SeatClaims.Held, of subscription: CustomerKey) -> AppliedRule {
        AppliedRule(
            .seatEnded, of: subscription.id.text, at: held.until, positions: held.releasedAt.map { [$0] } ?? [],
            customer: held.customer)
    }

    /// A later purchase with another token, which does not end an interval of ownership.
    static func keeping(_ owned: Ownership, from purchase: OwnershipEvidence.Purchase) -> AppliedRule {
        AppliedRule(
            .firstBuyer, of: owned.originalTransactionId.text, causeTransactionId: purchase.transactionId.text,
            at: purchase.purchaseDate, positions: [purchase.position], customer: owned.owner)
    }

    static func sharing(_ owned: Ownership) -> AppliedRule {
        AppliedRule(
            .sharedOwnership, of: owned.originalTransactionId.text, positions: owned.position.map { [$0] } ?? [],
            customer: owned.owner)
    }

    /// A purchase whose token says nothing about the owner.
    static func ignoring(_ purchase: OwnershipEvidence.Purchase, of subscription: CustomerKey) -> AppliedRule {
        AppliedRule(
            .sharedAccountToken, of: subscription.id.text, transactionId: purchase.transactionId.text,
            at: purchase.purchaseDate, positions: [purchase.position], key: purchase.token)
    }

    static func moving(_ former: CustomerLinks.Link, to last: CustomerLinks.Link) -> AppliedRule {
        var applied = AppliedRule(.linkMoved, positions: [last.position], customer: former.customer, key: last.key)
        applied.nextCustomer = last.customer
        return applied
    }

    static func refusing(_ link: CustomerLinks.Link) -> AppliedRule {
        AppliedRule(.linkRefused, positions: [link.position], customer: link.customer, key: link.key)
    }
}
