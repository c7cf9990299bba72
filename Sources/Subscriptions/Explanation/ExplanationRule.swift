/// A rule that decides who has access, as an explanation names it.
///
/// The list is closed: every rule of the fold that gives, cuts or removes a period, and every rule that decides to whom
/// a period belongs, has a case here. The article Explanations describes each with an example.
package enum ExplanationRule: String, Sendable, Hashable, CaseIterable {
    // MARK: A purchase gives a period

    /// The period of the transaction, from its purchase date to its expiry.
    case paid
    /// A one-time purchase, which has no end.
    case owned
    /// The duration comes from the product's configuration, because transactions do not contain it.
    case nonRenewingDuration = "non_renewing_duration"
    /// A later statement moves the expiry of the same transaction to a later date.
    case extended
    /// Billing grace after a failed renewal.
    case graceGranted = "grace_granted"

    /// An operator or the backend gave access by hand, without a purchase.
    case granted

    // MARK: A period ends early

    case replacedByUpgrade = "replaced_by_upgrade"
    case refundedPart = "refunded_part"
    case familyRevoked = "family_revoked"
    /// An organization or the purchaser of a group took the seat back.
    case assignmentRevoked = "assignment_revoked"
    /// The purchase was revoked in a way that this version does not know.
    case unknownRevocation = "unknown_revocation"
    case graceCutSwitchOff = "grace_cut_switch_off"
    /// The App Store said that access was over before the end that it stated itself.
    case endedByStatus = "ended_by_status"
    /// Google ended the purchase before its time.
    case revoked

    // MARK: A purchase gives nothing

    /// A full refund: the purchase counts as never made.
    case refundedWhole = "refunded_whole"
    /// The refund was stated about a copy of the purchase, under another transaction id.
    case refundedWithCopy = "refunded_with_copy"
    /// The store reported the account as deleted: its purchases count as refunded.
    case accountDeleted = "account_deleted"
    /// The purchase before the grace period was taken back, and the grace period with it.
    case graceTakenBack = "grace_taken_back"
    /// The product is of a kind that gives no access.
    case noAccessKind = "no_access_kind"
    /// The transaction does not say how long it lasts, and the configuration of its product does not either.
    case notConfigured = "not_configured"
    /// Google reports the purchase as consumed, and the kind of its product is not configured: it counts as a consumable.
    case consumed
    /// The period of the transaction has no length, its end lies before its start, or what renews states no end.
    case noDuration = "no_duration"
    /// Only the refund of the purchase is known, not its dates.
    case noPurchaseDate = "no_purchase_date"
    /// The latest statement about the purchase reports it under another subscription.
    case movedTo = "moved_to"

    // MARK: Statements contradict each other

    /// A later statement about a transaction takes back what an earlier one stated.
    case laterStatementWins = "later_statement_wins"
    /// Of two signed statements of the same time, the one that takes the purchase back counts.
    case tieTakesBack = "tie_takes_back"
    /// Units of a one-time purchase were refunded, or all of it, and the customer keeps the rest.
    case unitsRefunded = "units_refunded"
    /// An amount of the price was refunded, or all of it, and the customer keeps the purchase.
    case amountRefunded = "amount_refunded"

    // MARK: From the product to the entitlement

    /// The configuration of the product lists the entitlement.
    case mapped
    /// The product has no configured entitlements, so it grants one of its own name.
    case ownName = "own_name"

    // MARK: From the subscription to the customer

    /// A link of the backend on the subscription.
    case tiedByLink = "tied_by_link"
    /// The account token of a purchase of the subscription, or a link on that token.
    case tiedByAccountToken = "tied_by_account_token"
    /// The store account: a link on its id, or the app user of its purchases.
    case tiedByStoreAccount = "tied_by_store_account"
    /// Nothing says which app user owns the subscription: it belongs to its store account.
    case unclaimed
    /// A seat of the subscription, which the backend gave to the customer.
    case tiedBySeat = "tied_by_seat"
    /// The backend took the seat back, or there are fewer seats than claims.
    case seatEnded = "seat_ended"
    /// A later purchase with another account token takes the subscription from its date on.
    case latestBuyer = "latest_buyer"
    /// A later purchase with another account token does not take the subscription.
    case firstBuyer = "first_buyer"
    /// Every customer that bought or linked the subscription has all of it.
    case sharedOwnership = "shared_ownership"
    /// A later link of another customer takes what an earlier one named.
    case linkMoved = "link_moved"
    /// A link counts for nothing, because another customer owns what it names and what it rests on does not take it.
    case linkRefused = "link_refused"
    /// Too many store accounts buy with the account token, so it identifies no app user.
    case sharedAccountToken = "shared_account_token"

    // MARK: The answer

    /// The instant lies before the start or after the end of the period.
    case clock
    /// Nothing that the customer bought grants the entitlement.
    case noPurchase = "no_purchase"
    /// An operator skipped the event, so its facts do not count.
    case skipped
}

extension ExplanationRule {
    /// What the rule does to the purchase that it is applied to.
    package enum Effect: Sendable, Hashable {
        /// Gives a period, or makes it longer.
        case gives
        /// Ends a period before its original end.
        case cuts
        /// Removes a period.
        case removes
        /// Decides which statements count.
        case statement
        /// Decides which entitlement a product grants.
        case product
        /// Decides which customer owns the subscription.
        case ownership
        /// Is about no purchase.
        case answer
    }

    package var effect: Effect {
        switch self {
        case .paid, .owned, .nonRenewingDuration, .extended, .graceGranted, .granted: .gives
        case .replacedByUpgrade, .refundedPart, .familyRevoked, .assignmentRevoked, .unknownRevocation,
            .graceCutSwitchOff, .endedByStatus, .revoked:
            .cuts
        case .refundedWhole, .refundedWithCopy, .accountDeleted, .graceTakenBack, .noAccessKind, .notConfigured,
            .consumed, .noDuration, .noPurchaseDate, .movedTo:
            .removes
        case .laterStatementWins, .tieTakesBack, .unitsRefunded, .amountRefunded: .statement
        case .mapped, .ownName: .product
        case .tiedByLink, .tiedByAccountToken, .tiedByStoreAccount, .unclaimed, .tiedBySeat, .seatEnded, .latestBuyer,
            .firstBuyer, .sharedOwnership, .linkMoved, .linkRefused, .sharedAccountToken:
            .ownership
        case .clock, .noPurchase, .skipped: .answer
        }
    }
}
