import Subscriptions

extension PlayAction {
    /// The rows of the table of rules about grace, hold and the end of a purchase, as far as they are not rows of states.
    static let rules: [PlayAction] = [
        PlayAction("grace of 0: a silent day ACTIVE, then hold", [february], at: "2025-03-21T00:05:00Z", .hold) {
            $0.answer("2025-03-20T12:00:00Z", .active, start: "2025-02-20", until: "2025-03-20", order: "G")
            $0.answer("2025-03-21T00:00:20Z", .onHold, start: "2025-02-20", until: "2025-03-20", order: "G")
        },
        PlayAction(
            "more attempts to charge after grace: access as long as the answer says",
            [Span("2025-02-20", "2025-03-29")], at: "2025-03-30", .hold
        ) {
            grace(&$0)
            $0.answer("2025-03-27T06:00:00Z", .inGracePeriod, start: "2025-02-20", until: "2025-03-29", order: "G")
            $0.answer("2025-03-29T00:00:10Z", .onHold, start: "2025-02-20", until: "2025-03-29", order: "G")
        },
        PlayAction(
            "hold, and a new plan bought meanwhile: a gap until its start",
            [Span("2025-02-20", "2025-03-27"), Span("2025-04-05", "2026-04-05")], at: "2025-04-06", .active
        ) {
            grace(&$0)
            hold(&$0)
            $0.answer(
                "2025-04-05T00:00:03Z", .active, token: "t2", start: "2025-04-05", until: "2026-04-05", order: "H",
                plan: "yearly", linked: "t1")
        },
        PlayAction(
            "hold cancelled: EXPIRED adds nothing", [Span("2025-02-20", "2025-03-27")], at: "2025-04-02", .expired
        ) {
            grace(&$0)
            hold(&$0)
            expired(&$0, "2025-04-01T00:00:02Z", until: "2025-04-01", .user, cancelled: "2025-04-01")
        },
        PlayAction("a pause that is planned and withdrawn: renewed", [toApril], at: "2025-03-21", .active) {
            $0.answer("2025-03-01", .active, start: "2025-02-20", until: "2025-03-20", order: "G")
            $0.answer("2025-03-02", .active, start: "2025-02-20", until: "2025-03-20", order: "G")
            renewed(&$0)
        },
        PlayAction(
            "60 days after the expiry Google answers 410: the history stays", [february], at: "2025-05-21", .expired
        ) {
            expired(&$0, "2025-03-20T00:00:30Z", until: "2025-03-20", .user)
            $0.notice("2025-05-20", .gone)
        },
        PlayAction(
            "410 about a purchase that is paid for: what is known stays", [february], at: "2025-03-01", .active
        ) { $0.notice("2025-02-25", .gone) },
    ]

    /// The rows of the table of Google's actions in the lifecycle.
    static let lifecycle: [PlayAction] = [
        PlayAction(
            "resubscribe after expiry: the old subscription stays closed", [february], at: "2025-04-02", .expired
        ) {
            expired(&$0, "2025-03-20T00:00:30Z", until: "2025-03-20", .user)
            $0.answer(
                "2025-04-01T00:00:03Z", .active, token: "t2", start: "2025-04-01", until: "2025-05-01", order: "H")
        },
        PlayAction(
            "plan change: the old one ends at the new one's start, without a lapse",
            [Span("2025-02-20", "2026-03-01")], at: "2025-03-02", .active
        ) {
            $0.answer(
                "2025-03-01T00:00:03Z", .active, token: "t2", start: "2025-03-01", until: "2026-03-01", order: "H",
                plan: "yearly", linked: "t1")
            expired(&$0, "2025-03-01T00:00:05Z", until: "2025-02-28T23:59:59.880Z", .replaced)
        },
        PlayAction(
            "plan change: a 3 or 13 of the old one that comes later closes nothing",
            [Span("2025-02-20", "2026-03-01")], at: "2025-03-25", .active
        ) {
            $0.answer(
                "2025-03-01T00:00:03Z", .active, token: "t2", start: "2025-03-01", until: "2026-03-01", order: "H",
                plan: "yearly", linked: "t1")
            expired(&$0, "2025-03-24", until: "2025-03-20", .user)
        },
        PlayAction(
            "deferred mode: the product changes at the next renewal", [Span("2025-02-20", "2026-03-20")],
            at: "2025-03-21", .active
        ) { story in
            story.answer(
                "2025-03-01T00:00:03Z", .active, token: "t2", start: "2025-03-01", until: "2025-03-20", linked: "t1"
            ) {
                $0.items[0].nextProductId = "gold"
                $0.items[0].isAutoRenewing = false
                var deferred = PurchaseSnapshot.Item(productId: "gold")
                deferred.isAutoRenewing = true
                $0.items.append(deferred)
            }
            story.answer(
                "2025-03-20T00:00:10Z", .active, token: "t2", start: "2025-03-01", until: "2026-03-20", order: "H..0",
                product: "gold", plan: "yearly")
        },
        PlayAction(
            "plan change while the new one is pending: the old one goes on", [february], at: "2025-03-02", .active
        ) { $0.answer("2025-03-01", .pending, token: "t2", plan: "yearly", linked: "t1") },
        PlayAction(
            "plan change whose payment is cancelled: the old one goes on", [february], at: "2025-03-04", .active
        ) {
            $0.answer("2025-03-01", .pending, token: "t2", plan: "yearly", linked: "t1")
            $0.answer("2025-03-03", .pendingPurchaseCanceled, token: "t2", plan: "yearly", linked: "t1")
        },
        PlayAction(
            "plan change that is paid later: the new one from then on", [Span("2025-02-20", "2026-03-03")],
            at: "2025-03-25", .active
        ) {
            $0.answer("2025-03-01", .pending, token: "t2", plan: "yearly", linked: "t1")
            $0.answer(
                "2025-03-03T00:00:03Z", .active, token: "t2", start: "2025-03-03", until: "2026-03-03", order: "H",
                plan: "yearly", linked: "t1")
        },
        PlayAction("revoked, and the void names the order: as if never bought", [], at: "2025-03-02", .refunded) {
            expired(&$0, "2025-03-01T00:00:03Z", until: "2025-03-01")
            $0.void("2025-03-01T00:00:01Z", order: "G")
        },
        PlayAction(
            "revoked, and the void names the renewal: the period before it stays", [february], at: "2025-03-26",
            .refunded
        ) {
            renewed(&$0)
            $0.answer(
                "2025-03-25T00:00:03Z", .expired, start: "2025-02-20", until: "2025-03-25", order: "G..0", renews: false
            )
            $0.void("2025-03-25T00:00:01Z", order: "G..0")
        },
        PlayAction(
            "prepaid top-up: the time is appended", [Span("2025-02-20", "2025-05-20")], at: "2025-04-01", .activeWillEnd
        ) {
            $0.answer(
                "2025-03-10T00:00:03Z", .active, token: "t2", start: "2025-03-10", until: "2025-05-20", order: "H",
                renews: false, linked: "t1"
            ) { $0.items[0].isPrepaid = true }
        },
    ]
}
