import Encoding

// Explanations in plain English.

extension Explanation {
    /// The explanation in a few sentences, made from the members of its JSON.
    package var sentence: String {
        var parts = [head]
        parts += because.dropFirst().map(\.cited)
        parts += against.map { "This does not change it: \($0.cited)" }
        if let restated {
            let reason = isDecided(by: restated.reason) ? "" : ": \(restated.reason.cited.uncapitalised)"
            let state = Self.state(restated.active, restated.until)
            parts.append("Events received later change this: \(entitlement) \(state)\(reason)")
        }
        parts += couldChange.map(\.words)
        return parts.map { $0 + "." }.joined(separator: " ")
    }

    private var head: String {
        let asked = " on \(at.words)" + (knownAt.map { ", as known on \($0.words)" } ?? "")
        return "\(entitlement) \(Self.state(active, until)) (asked\(asked))"
            + (because.first.map { ": \($0.cited.uncapitalised)" } ?? "")
    }

    private static func state(_ active: Bool, _ until: Instant?) -> String {
        switch (active, until) {
        case (true, let until?) where until < .latest: "is active until \(until.words)"
        case (true, _): "is active without an end"
        case (false, _): "is not active"
        }
    }
}

extension Explanation.CitedEvent {
    /// What the store calls it, such as `SUBSCRIBED INITIAL_BUY`, or what it is.
    package var words: String {
        let known = EventSource(rawValue: source)
        if let type {
            // The type of an answer is the state that it contains, such as `ACTIVE`.
            let prefix = known == .appleAPI || known == .googleAPI ? "answer " : ""
            return prefix + type + (subtype.map { " \($0)" } ?? "")
        }
        return switch known {
        case .appleReceipt: "receipt"
        case .appleDevice, .googleDevice: "handed in by the app"
        case .appleAPI, .googleAPI: "answer of the store"
        case .googleVoided: "voided purchase"
        case .backend: "link"
        case .appleV1, .appleV2, .appleHistory, .googleRTDN, .operator, nil: source
        }
    }
}

extension Explanation.PossibleChange {
    fileprivate var words: String { "Next, on \(at.words): \(text.uncapitalised)" }

    package var sentence: String { words + "." }
}

extension Explanation.Reason {
    /// The text with the events that are its evidence, as a sentence.
    package var sentence: String { cited + "." }

    /// The text with the events that are its evidence.
    fileprivate var cited: String {
        let app = joinedApp.map { " of \($0)" } ?? ""
        return switch positions.count {
        case 0: text
        case _ where !by.isEmpty:
            "\(text) (" + by.map { "\($0.words), event \($0.position)" }.joined(separator: "; ") + "\(app))"
        case 1: "\(text) (event \(positions[0])\(app))"
        default: "\(text) (events \(positions.map(String.init).joined(separator: ", "))\(app))"
        }
    }
}

extension String {
    /// The text with a small first letter, to continue a sentence. Ids are left as they are.
    var uncapitalised: String {
        guard let first, first.isUppercase, dropFirst().first?.isUppercase != true else { return self }
        return first.lowercased() + dropFirst()
    }
}

extension Instant {
    /// Such as `3 Oct 2026 03:44:46 UTC`.
    package var words: String {
        let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        let (year, month, day) = calendarDate
        let time = description.dropFirst(11).prefix(8)
        return "\(day) \(months[month - 1]) \(year) \(time) UTC"
    }
}

extension AppliedRule {
    /// One sentence without its full stop, in which the purchase, the dates and the reason of the rule are named.
    ///
    /// - Parameters:
    ///   - entitlement: The entitlement that is explained.
    ///   - asked: The customer whose explanation it is; every other one is named. Nil if it is nobody's.
    func text(_ entitlement: String, for asked: CustomerKey?) -> String {
        let purchase = purchaseWords
        let on = at.map { " on \($0.words)" } ?? ""
        let cause = causeTransactionId.map { "transaction \($0)" } ?? "another purchase"
        return switch rule {
        case .paid: "\(purchase) \(paidWords)\(periodWords)"
        case .owned:
            "\(purchase) is a one-time purchase without an end"
                + (payer == .family ? ", shared by a family member," : "")
                + (payer == .assigned ? ", assigned by an organization or a group," : "") + since
        case .granted:
            "\(purchase) was given by hand"
                + (period.map { $0.upperBound == .latest ? " without an end" + since : periodWords } ?? "")
        case .nonRenewingDuration: "\(purchase) lasts for the configured duration of its product,\(periodWords)"
        case .extended:
            "The end of \(purchase) was moved"
                + (period.map { " from \($0.lowerBound.words) to \($0.upperBound.words)" } ?? "")
        case .graceGranted: "The renewal after \(purchase) failed, and the store granted grace\(periodWords)"
        case .replacedByUpgrade: "\(purchase) was replaced by \(cause)\(on)"
        case .refundedPart: "The rest of \(purchase) was refunded\(on)"
        case .familyRevoked: "The Family Sharing of \(purchase) was revoked\(on)"
        case .assignmentRevoked: "The seat of \(purchase) was taken back\(on)"
        case .unknownRevocation:
            "\(purchase) was revoked\(on) in a way that this version does not know"
                + (unknownValue.map { " (\($0))" } ?? "") + ", which ends it and takes nothing back"
        case .graceCutSwitchOff: "Renewal was switched off\(on), which ended the grace period after \(purchase)"
        case .endedByStatus:
            "The App Store said\(on) that access by \(purchase) was over, before the end that it stated itself"
        case .revoked: "The store ended \(purchase) before its time\(on)"
        case .refundedWhole: "\(purchase) was refunded in full\(on), so it counts as never made"
        case .refundedWithCopy: "The refund\(on) was stated about \(cause), a copy of \(purchase)"
        case .accountDeleted: "The store account of \(purchase) was deleted\(on)"
        case .graceTakenBack: "\(purchase) was taken back\(on), and the grace period after it as well"
        case .noAccessKind: "\(purchase) is of a kind of product that gives no access"
        case .notConfigured:
            "\(purchase) gives no access, because the store does not say how long it lasts: configure the kind and the "
                + "duration of its product"
        case .consumed:
            "\(purchase) was consumed, so it counts as a consumable: configure the kind of its product"
        case .noDuration where revocation != nil: "\(purchase) was \(takenBackWords(on: revocation?.until))"
        case .noDuration: "\(purchase)\(on) has no duration: its end is missing, or not after its start"
        case .noPurchaseDate: "Only the end of \(purchase) is known, and no dates of it"
        case .movedTo: "\(purchase) moved to \(key.map(\.words) ?? "another subscription")\(on)"
        case .laterStatementWins: "A later statement about \(purchase)\(on) takes back what an earlier one stated"
        case .unitsRefunded:
            "\(refundedUnits) of \(purchase) was refunded\(on): the customer keeps "
                + (units?.left == 0 ? "what is owned" : "the rest")
        case .amountRefunded: "\(refundedAmount) of \(purchase) was refunded\(on): the customer keeps it"
        case .tieTakesBack:
            "Two statements about \(purchase) contradict each other\(on), and neither is later: the one that takes it "
                + "back counts"
        case .mapped: "Product \(productId ?? "") is configured to grant \(entitlement)"
        case .ownName: "Product \(productId ?? "") has no configured entitlements, so it grants its own name"
        case .skipped: "An operator skipped an event about subscription \(originalTransactionId), so it does not count"
        case .noPurchase: "No purchase of the customer grants \(entitlement)"
        case .clock: clockText
        case .tiedByLink, .tiedByAccountToken, .tiedByStoreAccount, .unclaimed, .tiedBySeat, .seatEnded, .latestBuyer,
            .firstBuyer, .sharedOwnership, .linkMoved, .linkRefused, .sharedAccountToken:
            ownershipText(on, cause, for: asked)
        }
    }

    private func ownershipText(_ on: String, _ cause: String, for asked: CustomerKey?) -> String {
        let subscription = "Subscription \(originalTransactionId)"
        let owner = customer.flatMap { $0 == asked ? nil : $0.named } ?? "the customer"
        let next = nextCustomer.map { $0 == asked ? "the customer" : $0.named } ?? "another"
        return switch rule {
        case .tiedByLink: "\(subscription) belongs to \(owner) by a link of the backend"
        case .tiedByAccountToken: "\(subscription) belongs to \(owner) by the account token of a purchase"
        case .tiedByStoreAccount: "\(subscription) belongs to \(owner) by its store account"
        case .unclaimed: "\(subscription) belongs to its store account: no app user is known to own it"
        case .tiedBySeat: "A seat of subscription \(originalTransactionId) belongs to \(owner), as the backend states"
        case .seatEnded:
            "The seat of \(owner) in subscription \(originalTransactionId) ended\(on)"
                + (positions.isEmpty ? ": the backend took it back, or there are fewer seats than claims" : "")
        case .latestBuyer: "\(subscription) belongs to the app user of \(cause) from\(on.dropFirst(3)) on"
        case .firstBuyer: "\(subscription) stays with the app user of its first purchase, in spite of \(cause)\(on)"
        case .sharedOwnership: "\(subscription) belongs to every customer that bought or linked it"
        case .linkMoved:
            "A later link moved \(key.map(\.words) ?? "a key") from "
                + (customer == nil ? "one customer" : owner) + " to \(next)"
        case .linkRefused:
            "A link on \(key.map(\.words) ?? "a key") counts for nothing: another customer owns it"
        case .sharedAccountToken:
            "The account token of \(purchaseWords.uncapitalised) belongs to too many people to name an app user"
        default: ""
        }
    }

    private var clockText: String {
        guard let period else { return "The period has ended" }
        if let at, at < period.lowerBound { return "\(purchaseWords) starts only on \(period.lowerBound.words)" }
        if revocation != nil { return "\(purchaseWords) was \(takenBackWords(on: period.upperBound))" }
        return "\(purchaseWords) ended on \(period.upperBound.words)"
            + (lapse.map { ": \($0.words)" } ?? (isOfGrant ? ", as it was given" : ", and nothing follows it"))
    }

    private func takenBackWords(on instant: Instant?) -> String { revocation?.takenBackWords(on: instant) ?? "" }

    private var isOfGrant: Bool { transactionId.flatMap(GrantStatement.id) != nil }

    private var paidWords: String {
        switch payer {
        case .trial: "was a free trial"
        case .family: "was shared by a family member"
        case .assigned: "was assigned by an organization or a group"
        case .granted: "was given by hand"
        case .paying, .grace, nil: "was paid for"
        }
    }

    private var refundedAmount: String {
        guard let amount else { return "The price" }
        return "\(amount.words) of the price"
    }

    private var refundedUnits: String {
        guard let units, units.bought > 1 else { return "The price" }
        if units.left == 0 { return "The price of all \(units.bought) units" }
        return "The price of \(units.bought - units.left) of the \(units.bought) units"
    }

    private var purchaseWords: String {
        if let grant = transactionId.flatMap(GrantStatement.id) {
            return "Grant \(grant)" + (productId.map { " (\($0))" } ?? "")
        }
        return "Transaction \(transactionId ?? "")" + (productId.map { " (\($0))" } ?? "")
    }

    private var periodWords: String {
        (statedPeriod ?? period).map { " from \($0.lowerBound.words) to \($0.upperBound.words)" } ?? ""
    }

    private var since: String { period.map { " since \($0.lowerBound.words)" } ?? "" }
}

extension Lapse {
    /// Why nothing follows a period.
    var words: String {
        let failed = "the renewal failed, and the store"
        return switch self {
        case .switchedOff: "renewal was switched off"
        case .retried: "\(failed) retries the payment"
        case .onHold: "\(failed) put the subscription on hold"
        case .paused(let until): "the customer paused the subscription" + (until.map { " until \($0.words)" } ?? "")
        case .failed: "\(failed) has stopped retrying the payment"
        case .unpaid: "the renewal failed, and no later payment is known"
        case .priceRefused: "the customer did not accept a price increase"
        case .notForSale: "the product was not for sale at the renewal"
        case .unnamed: "the store ended the subscription without naming a reason"
        }
    }
}

extension CustomerKey {
    /// The customer, with an id that a backend gave or an answer about its subscriptions shows anyway. The account token of
    /// an app user is nothing for others.
    fileprivate var named: String {
        switch kind {
        case .link: "customer \(id.text)"
        case .account: "another app user"
        case .appTransaction: "another store account"
        case .subscription: "the store account of subscription \(id.text)"
        }
    }

    fileprivate var words: String {
        switch kind {
        case .link: "a customer id"
        case .account: "an account token"
        case .appTransaction: "a store account"
        case .subscription: "subscription \(id.text)"
        }
    }
}
