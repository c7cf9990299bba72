import AppStore
import Encoding
import Subscriptions
import Testing

private let start = "2022-01-01"
private let end = "2022-02-01"
private let renewed = newBody("DID_RENEW", rows: [newRow("1000000000000002", start, end)])

/// The numbered quirks of the V1 format that concern single fields (1 to 15, 28 to 30, 36, 39, 41).
@Suite("V1 quirks: fields")
struct V1QuirkTests {
    @Test(
        "the environment is recognized in every spelling (quirks 1, 2)",
        arguments: [
            ("PROD", Environment.production), ("Production", .production), ("prod", .production),
            ("PRODUCTION", .production), ("Sandbox", .sandbox), ("SANDBOX", .sandbox), ("sandbox", .sandbox),
        ])
    func environment(text: String, expected: Environment) throws {
        let top = try renewed.without("unified_receipt").with(["environment": .text(text)]).event()
        let unifiedOnly = try renewed.without("environment").withUnified(["environment": .text(text)]).event()

        #expect(top.environment == expected)
        #expect(unifiedOnly.environment == expected)
    }

    @Test("an environment name that Apple does not use is unknown", arguments: ["Xcode", "", "PRODSandbox"])
    func unknownEnvironment(text: String) throws {
        let event = try renewed.without("unified_receipt").with(["environment": .text(text)]).event()

        #expect(event.environment == .unknown)
    }

    @Test("the receipt of an expired subscription is read under its other key (quirk 3)")
    func expiredKeys() throws {
        let row = oldRow("1000000000000001", "2019-01-01", "2019-02-01")

        let latest = try oldBody("DID_CHANGE_RENEWAL_STATUS", row: row).event()
        let expired = try oldBody("DID_CHANGE_RENEWAL_STATUS", row: row, expired: true).event()

        #expect(expired.transactions.count == 1)
        #expect(expired == latest)
    }

    @Test("an empty object as receipt info counts as absent and is not a defect (quirk 43)")
    func emptyObjects() throws {
        let event = try renewed.with(["latest_receipt_info": [:], "latest_expired_receipt_info": []]).event()

        #expect(try event.transactions == renewed.event().transactions)
        #expect(event.defects == [])
    }

    @Test("receipt info is an object, an array of one or an array, under either key (quirks 4, 5)")
    func objectOrArray() throws {
        let row = newRow("1000000000000002", start, end)
        let top = renewed.without("unified_receipt")

        let events = try [
            top.with(["latest_receipt_info": row]), top.with(["latest_receipt_info": [row]]),
            top.with(["latest_expired_receipt_info": [row]]), renewed.withUnified(["latest_receipt_info": row]),
            renewed,
        ].map { try $0.event() }
        let two = try top.with(["latest_receipt_info": [row, newRow("1000000000000003", end, "2022-03-01")]]).event()

        #expect(events.map { $0.transactions.map(\.statesRevocation) } == [[false], [false], [false], [true], [true]])
        let alike = events.map { event in
            event.transactions.map { row in
                var row = row
                row.statesRevocation = true
                return row
            }
        }
        #expect(Set(alike).count == 1)
        #expect(events.allSatisfy { $0.transactions.count == 1 && $0.defects.isEmpty })
        #expect(Set(two.transactions.map(\.transactionId)) == ["1000000000000002", "1000000000000003"])
    }

    @Test(
        "the expiry is read in every format (quirks 6, 7)",
        arguments: [
            ("expires_date", "1643673600000"), ("expires_date", "2022-02-01 00:00:00 Etc/GMT"),
            ("expires_date_ms", "1643673600000"), ("expires_date_formatted", "2022-02-01 00:00:00 Etc/GMT"),
            ("expires_date", "2022-02-01T00:00:00Z"), ("expires_date", "2022-02-01T01:00:00.000+01:00"),
            ("expires_date_pst", "2022-01-31 16:00:00 America/Los_Angeles"),
            ("expires_date", "2022-01-31 16:00:00 America/Los_Angeles"),
        ])
    func expiry(key: String, text: String) throws {
        let row = newRow("1000000000000002", start, end)
            .without("expires_date", "expires_date_ms", "expires_date_pst").with([key: .text(text)])

        let events = try [
            newBody("DID_RENEW", rows: [row]).event(), oldBody("INITIAL_BUY", row: row).event(),
        ]

        #expect(events.allSatisfy { $0.transactions.first?.expiresDate == day(end) && $0.defects.isEmpty })
    }

    @Test("dates fall back from milliseconds to the text format")
    func textDates() throws {
        let row = cancelled(newRow("1000000000000002", start, end), "2022-01-05")
            .without("purchase_date_ms", "original_purchase_date_ms", "expires_date_ms", "cancellation_date_ms")
        let body = newBody("CANCEL", rows: [row]).with(["auto_renew_status_change_date": gmt("2022-01-06")])

        let event = try body.event()

        let transaction = try #require(event.transactions.first)
        #expect(transaction.purchaseDate == day(start) && transaction.originalPurchaseDate == day(start))
        #expect(transaction.expiresDate == day(end) && transaction.revocationDate == day("2022-01-05"))
        #expect(event.occurredAt == day("2022-01-06"))
    }

    @Test("milliseconds with nine digits beside a text date of another year are not believed")
    func nineDigits() throws {
        let row = cancelled(newRow("1000000000000002", start, end), "2022-01-05").with([
            "expires_date_ms": "164367360", "cancellation_date_ms": "164133360", "purchase_date_ms": "163999",
        ])

        let event = try newBody("CANCEL", rows: [row]).event()

        let transaction = try #require(event.transactions.first)
        #expect(transaction.expiresDate == day(end) && transaction.purchaseDate == day(start))
        #expect(transaction.revocationDate == day("2022-01-05"))
        let paths = event.defects.filter { $0.problem == "is years from the formatted date, which counts" }.map(\.path)
        #expect(
            Set(paths.map { $0.split(separator: ".").last ?? "" })
                == ["expires_date_ms", "cancellation_date_ms", "purchase_date_ms"])
        // Without a text date there is nothing better.
        let alone = try newBody(
            "DID_RENEW", rows: [row.without("expires_date", "cancellation_date", "purchase_date")]
        ).event()
        #expect(alone.transactions.first?.expiresDate == Instant(milliseconds: 164_367_360))
    }

    @Test("milliseconds take precedence over the text date")
    func millisecondsWin() throws {
        let event = try renewed.withRow(["expires_date_ms": "1643673600123"]).event()

        #expect(event.transactions.first?.expiresDate?.milliseconds == 1_643_673_600_123)
    }

    @Test(
        "a flag is read in every spelling and type (quirk 8)",
        arguments: [
            ("\"true\"", true), ("\"1\"", true), ("1", true), ("true", true),
            ("\"false\"", false), ("\"0\"", false), ("0", false), ("false", false),
        ])
    func flags(value: String, expected: Bool) throws {
        let value = JSON.raw(value)
        let row = newRow("1000000000000002", start, end)
            .with(["is_trial_period": value, "is_in_intro_offer_period": value, "is_upgraded": value])
        let info = pending().with(["auto_renew_status": value, "is_in_billing_retry_period": value])

        let event = try newBody("DID_RENEW", rows: [row], pending: [info]).without("auto_renew_status").event()
        let old = try oldBody("INITIAL_BUY", row: oldRow("1000000000000002", start, end))
            .with(["auto_renew_status": value]).event()

        let transaction = try #require(event.transactions.first)
        let renewal = try #require(event.renewals.first)
        #expect(transaction.isTrialPeriod == expected && transaction.isInIntroOfferPeriod == expected)
        #expect(transaction.isUpgraded == expected)
        #expect(renewal.autoRenewStatus == expected && renewal.isInBillingRetryPeriod == expected)
        #expect(old.renewals.first?.autoRenewStatus == expected)
        #expect(event.defects == [] && old.defects == [])
    }

    @Test(
        "ids are read from strings and numbers without losing digits (quirk 9)",
        arguments: [
            "1000000588791509", "9007199254740993", "9223372036854775807", "18446744073709551615",
        ])
    func ids(digits: String) throws {
        let keys = ["transaction_id", "original_transaction_id", "web_order_line_item_id"]
        func body(_ value: JSON) -> JSON {
            keys.reduce(renewed) { $0.withRow([$1: value]) }.withPending(["original_transaction_id": value])
        }

        let number = try body(.raw(digits)).event()
        let text = try body(.text(digits)).event()

        #expect(number.transactions.first?.transactionId == digits)
        #expect(number.transactions.first?.originalTransactionId == digits)
        #expect(number.transactions.first?.webOrderLineItemId == digits)
        #expect(number.renewals.first?.originalTransactionId == digits)
        #expect(number == text)
    }

    @Test("other numbers are read from strings and numbers (quirk 9)")
    func numbers() throws {
        let text = try renewed.withRow(["quantity": "3"]).event()
        let number = try renewed.withRow([
            "quantity": 3, "purchase_date_ms": .raw("1640995200000"), "expires_date_ms": .raw("1643673600000"),
        ]).event()

        #expect(text.transactions.first?.quantity == 3)
        #expect(number.transactions == text.transactions)
        #expect(number.defects == [])
    }

    @Test("the top-level original transaction id is a number or a string, and absent if empty (quirk 10)")
    func originalTransactionId() throws {
        let bare = oldBody("DID_CHANGE_RENEWAL_PREF", row: nil)

        let number = try bare.with(["original_transaction_id": .raw("9007199254740993")]).event()
        let text = try bare.with(["original_transaction_id": "9007199254740993"]).event()
        let empty = try bare.with(["original_transaction_id": ""]).event()
        let absent = try bare.event()

        #expect(number == text)
        #expect(number.fingerprint != absent.fingerprint)
        #expect(number.renewals.map(\.originalTransactionId) == ["9007199254740993"])
        #expect(empty == absent)
        #expect(empty.defects == [] && empty.renewals == [])
    }

    @Test("the expiration intent is a string or a number, at both levels (quirk 11)", arguments: 1...5)
    func expirationIntent(intent: Int) throws {
        let old = oldBody("RENEWAL", row: oldRow("1000000000000001", start, end))

        let events = try [
            old.with(["expiration_intent": .raw(String(intent))]), old.with(["expiration_intent": "\(String(intent))"]),
            renewed.withPending(["expiration_intent": .raw(String(intent))]),
            renewed.withPending(["expiration_intent": "\(String(intent))"]),
        ].map { try $0.event() }

        #expect(events.allSatisfy { $0.renewals.first?.expirationIntent == intent && $0.defects.isEmpty })
    }

    @Test(
        "a body with an empty, blank, absent or mistyped password decodes (quirk 12)",
        arguments: [
            "\"\"", "\" \"", "null", "1", "{}", nil,
        ])
    func password(value: String?) throws {
        let body = value.map { renewed.with(["password": .raw($0)]) } ?? renewed.without("password")

        let event = try body.event()

        #expect(event.transactions == (try renewed.event().transactions))
    }

    @Test("the old receipt info is read if the unified receipt or its rows are absent (quirk 13)")
    func noUnifiedRows() throws {
        let row = oldRow("1000000000000001", "2020-01-01", "2020-02-01")
        let old = oldBody("INITIAL_BUY", row: row)

        let alone = try old.event()
        let partial = try old.with(["unified_receipt": ["status": "0", "environment": "Production"]]).event()
        let none = try newBody("REFUND", rows: []).without("unified_receipt")
            .with(["unified_receipt": ["status": 0, "latest_receipt": "AAAA"]]).event()

        #expect(alone.transactions.map(\.transactionId) == ["1000000000000001"])
        #expect(partial.transactions == alone.transactions)
        #expect(none.kind == .refund && none.transactions == [])
        #expect(none.defects == [.cancellationWithoutPurchase])
    }

    @Test("a cancellation of a purchase outside the sent rows cancels none of them (quirk 14)")
    func refundedRowMissing() throws {
        let body = oldBody("CANCEL", row: oldRow("1000000000000002", start, end)).with([
            "web_order_line_item_id": "91000000000000001", "cancellation_date_ms": milliseconds("2022-01-05"),
        ])

        let event = try body.event()

        #expect(event.transactions.allSatisfy { $0.transactionId != "1000000000000002" || $0.revocationDate == nil })
        #expect(event.occurredAt == day("2022-01-05"))
    }

    @Test("a top-level cancellation applies to the purchase that it names")
    func topLevelCancellation() throws {
        let body = oldBody("CANCEL", row: oldRow("1000000000000002", start, end)).with([
            "web_order_line_item_id": "91000000000000002", "cancellation_date": gmt("2022-01-05"),
            "cancellation_date_ms": milliseconds("2022-01-05"),
        ])

        let event = try body.event()

        #expect(event.kind == .refund)
        #expect(event.transactions.map(\.revocationDate) == [day("2022-01-05")])
    }

    @Test("a body without old receipt objects takes all dates from the unified receipt (quirk 15)")
    func unifiedOnly() throws {
        let event = try renewed.event()

        let transaction = try #require(event.transactions.first)
        #expect(transaction.purchaseDate == day(start))
        #expect(transaction.expiresDate == day(end))
        #expect(transaction.productId == monthly)
        #expect(event.app == testBundle)
        #expect(event.renewals.first?.autoRenewStatus == true)
    }

    @Test("a purchase one second before its original purchase is not a defect (quirk 28)")
    func oneSecondEarlier() throws {
        let event = try renewed.withRow(["original_purchase_date_ms": milliseconds("2022-01-01T00:00:01Z")]).event()

        #expect(event.defects == [])
        #expect(event.transactions.first?.purchaseDate == day(start))
        #expect(event.transactions.first?.originalPurchaseDate == day("2022-01-01T00:00:01Z"))
    }

    @Test("dates that differ only by milliseconds keep the fingerprint (quirk 29)")
    func millisecondDigits() throws {
        let exact = try renewed.withRow(["purchase_date_ms": "1584703627636"]).event()
        let rounded = try renewed.withRow(["purchase_date_ms": "1584703627000"]).event()
        let later = try renewed.withRow(["purchase_date_ms": "1584703628000"]).event()

        #expect(exact.fingerprint == rounded.fingerprint)
        #expect(exact.fingerprint != later.fingerprint)
    }

    @Test("Pacific dates are not read if another rendering is there (quirk 30)")
    func pacificBesideOthers() throws {
        let row = newRow("1000000000000002", start, end)

        let absurd = try newBody("DID_RENEW", rows: [row.with(["purchase_date_pst": [1, "?"]])]).event()

        #expect(absurd == (try renewed.event()))
    }

    @Test(
        "a date in Pacific time alone is read by the rule of summer time",
        arguments: [
            ("2022-01-31 16:00:00", "2022-02-01T00:00:00Z"), ("2022-07-01 17:00:00", "2022-07-02T00:00:00Z"),
            // Summer time began on 13 March at 2 and ended on 6 November at 2.
            ("2022-03-13 01:59:59", "2022-03-13T09:59:59Z"), ("2022-03-13 03:00:00", "2022-03-13T10:00:00Z"),
            ("2022-11-06 00:59:59", "2022-11-06T07:59:59Z"), ("2022-11-06 01:30:00", "2022-11-06T08:30:00Z"),
            ("2022-11-06 02:00:00", "2022-11-06T10:00:00Z"),
            // The months that begin with a Sunday and with a Monday.
            ("2020-03-08 03:00:00", "2020-03-08T10:00:00Z"), ("2020-11-01 02:00:00", "2020-11-01T10:00:00Z"),
            ("2021-03-14 01:00:00", "2021-03-14T09:00:00Z"), ("2021-11-07 00:30:00", "2021-11-07T07:30:00Z"),
        ])
    func pacificAlone(text: String, expected: String) throws {
        let row = newRow("1000000000000002", start, end).without("expires_date", "expires_date_ms")
            .with(["expires_date_pst": .text("\(text) America/Los_Angeles")])

        let event = try newBody("DID_RENEW", rows: [row]).event()

        #expect(event.transactions.first?.expiresDate == day(expected))
    }

    @Test("a refund that is dated in Pacific time alone is a refund")
    func pacificRefund() throws {
        let row = newRow("1000000000000002", start, end)
            .with(["cancellation_date_pst": "2022-01-04 16:00:00 America/Los_Angeles", "cancellation_reason": "0"])

        let event = try newBody("CANCEL", rows: [row]).event()

        #expect(event.transactions.first?.revocationDate == day("2022-01-05"))
        #expect(event.defects == [])
    }

    @Test("a date of zero is none, and a text beside it counts", arguments: [JSON.text("0"), 0])
    func zero(value: JSON) throws {
        let nobody = newRow("1000000000000002", start, end)
            .with(["cancellation_date_ms": value, "cancellation_date": "1970-01-01 00:00:00 Etc/GMT"])
        let refunded = cancelled(newRow("1000000000000002", start, end), "2022-01-05")
            .with(["cancellation_date_ms": value])

        let kept = try newBody("DID_RENEW", rows: [nobody]).event()
        let taken = try newBody("CANCEL", rows: [refunded]).event()

        #expect(kept.transactions.first?.revocationDate == nil)
        #expect(kept.transactions.first?.statesRevocation == true)
        #expect(kept.defects.map(\.problem).allSatisfy { $0 == "is the beginning of 1970, which counts as no date" })
        #expect(kept.defects.count == 2)
        #expect(taken.transactions.first?.revocationDate == day("2022-01-05"))
    }

    @Test("renewal info of before 2018, which names no subscription, is about the only one of its product")
    func renewalWithoutSubscription() throws {
        let row = newRow("1000000000000002", start, end)
        let other = newRow("1000000000000009", start, end, subscription: "1000000000000009")
        let element = pending(autoRenew: "0").without("original_transaction_id")
        func event(_ rows: JSON..., of element: JSON) throws -> Event {
            try newBody("DID_RENEW", rows: rows, pending: [element]).event()
        }

        let known = try event(row, of: element)
        let ambiguous = try event(row, other, of: element)
        let unknown = try event(row, of: element.with(["product_id": "com.example.another"]))

        #expect(known.renewals.map(\.originalTransactionId) == [testSubscription])
        #expect(known.renewals.first?.autoRenewStatus == false && known.defects == [])
        let path = "unified_receipt.pending_renewal_info[0].original_transaction_id"
        for event in [ambiguous, unknown] {
            #expect(event.defects.map(\.path).contains(path))
        }
    }

    @Test(
        "the app is identified by its bundle id; Apple's numeric ids may be 0, missing or strings (quirk 36)",
        arguments: [
            "0", "\"0\"", "\"\"", "null", "1400000001",
        ])
    func appItemId(value: String) throws {
        let row = oldRow("1000000000000001", start, end).with(["app_item_id": .raw(value), "item_id": .raw(value)])

        let event = try oldBody("INITIAL_BUY", row: row).with(["auto_renew_adam_id": .raw(value)]).event()

        #expect(event.app == testBundle)
        #expect(event.defects == [])
    }

    @Test("null counts as absent in every field (quirk 39)")
    func null() throws {
        let keys = [
            "cancellation_date", "cancellation_date_ms", "is_upgraded", "promotional_offer_id", "app_account_token",
        ]
        var row = newRow("1000000000000002", start, end)
        for key in keys { row = row.without(key) }
        var nulled = row
        for key in keys { nulled[key] = .raw("null") }
        let info = pending().with(["expiration_intent": .raw("null"), "grace_period_expires_date_ms": .raw("null")])
        let top: KeyValuePairs<String, JSON> = [
            "expiration_intent": .raw("null"), "original_transaction_id": .raw("null"),
            "auto_renew_status_change_date_ms": .raw("null"), "latest_receipt_info": .raw("null"),
            "latest_expired_receipt_info": .raw("null"), "cancellation_date_ms": .raw("null"),
        ]

        let absent = try newBody("DID_RENEW", rows: [row]).event()
        let null = try newBody("DID_RENEW", rows: [nulled], pending: [info]).with(top).event()

        #expect(null == absent)
        #expect(null.defects == [])
    }

    @Test("a trial is an ordinary transaction with the trial flag (quirk 41)")
    func trial() throws {
        let event = try event(fixture: "v1-initial-buy-trial")

        #expect(event.kind == .purchase)
        #expect(event.transactions.map(\.isTrialPeriod) == [true])
        #expect(fold([event]).isActive(at: day("2021-09-07T23:59:59Z")))
        #expect(!fold([event]).isActive(at: day("2021-09-08")))
    }

    @Test("the nil UUID as account token stays in the transaction, with a defect")
    func nilAccountToken() throws {
        let event = try renewed.withRow(["app_account_token": "00000000-0000-0000-0000-000000000000"]).event()
        let near = try renewed.withRow(["app_account_token": "00000000-0000-0000-0000-000000000001"]).event()

        #expect(event.transactions.map(\.appAccountToken) == ["00000000-0000-0000-0000-000000000000"])
        #expect(
            event.defects == [
                Defect(
                    path: "unified_receipt.latest_receipt_info[0].app_account_token",
                    problem: "is the nil UUID, which identifies no account")
            ])
        #expect(near.defects == [])
    }

    @Test("ignored account tokens of many rows do not displace another defect")
    func nilAccountTokens() throws {
        var rows = (0..<100).map { number in
            newRow("\(1_000_000_000_000_000 + number)", start, end)
                .with(["app_account_token": "00000000-0000-0000-0000-000000000000"])
        }
        rows[99] = rows[99].with(["quantity": "many"])

        let event = try newBody("DID_RENEW", rows: rows).event()

        #expect(event.defects.count == 100)
        #expect(event.defects.first?.path == "unified_receipt.latest_receipt_info[99].quantity")
        #expect(event.defects.dropFirst().allSatisfy { $0.isIgnoredAccountToken })
    }

    @Test("offers, ownership and the account token are read from the row")
    func optionalFields() throws {
        let event = try renewed.withRow([
            "promotional_offer_id": "offer-1", "offer_code_ref_name": "code-1",
            "in_app_ownership_type": "FAMILY_SHARED",
            "app_account_token": "00000000-0000-4000-8000-000000000001",
        ]).withPending(["price_consent_status": "1", "promotional_offer_id": "offer-2"]).event()

        let transaction = try #require(event.transactions.first)
        #expect(transaction.promotionalOfferId == "offer-1" && transaction.offerCodeRefName == "code-1")
        #expect(transaction.isFamilyShared)
        #expect(transaction.appAccountToken == "00000000-0000-4000-8000-000000000001")
        #expect(event.renewals.first?.priceIncreaseStatus == 1)
        #expect(event.renewals.first?.promotionalOfferId == "offer-2")
    }
}
