import AppStore
import Encoding
import TestSupport
import Testing

private let rows = [
    newRow("1000000000000002", "2022-02-01", "2022-03-01"), newRow("1000000000000001", "2022-01-01", "2022-02-01"),
]
private let base = newBody("DID_CHANGE_RENEWAL_STATUS", rows: rows).with([
    "auto_renew_status_change_date": gmt("2022-02-03"), "auto_renew_status_change_date_ms": milliseconds("2022-02-03"),
    "auto_renew_status_change_date_pst": "unread America/Los_Angeles",
])

private func key(_ body: JSON, receivedAt: Instant = day("2026-01-01")) throws -> [UInt8] {
    try #require(try body.event(receivedAt: receivedAt).fingerprint)
}

@Suite("Fingerprints of V1 notifications (quirks 18, 19)")
struct V1FingerprintTests {
    @Test("a fingerprint has 32 bytes and does not depend on the time of receipt")
    func shape() throws {
        let first = try key(base, receivedAt: day("2022-02-03"))
        let retry = try key(base, receivedAt: day("2022-02-05"))

        #expect(first.count == 32)
        #expect(first == retry)
    }

    @Test(
        "a repeat that changes no fact keeps the fingerprint",
        arguments: [
            ("another unified receipt", base.withUnified(["latest_receipt": "b3RoZXI="])),
            ("another old receipt", base.with(["latest_receipt": "b3RoZXI="])),
            ("another expired receipt", base.with(["latest_expired_receipt": "b3RoZXI="])),
            ("another password", base.with(["password": "fedcba9876543210"])),
            ("no password", base.without("password")),
            ("deprecation", base.with(["deprecation": "Mon, 5 Jun 2023"])),
            ("Pacific date of a row", base.withRow(["purchase_date_pst": "x", "expires_date_pst": "y"])),
            ("Pacific date of the body", base.with(["auto_renew_status_change_date_pst": "x"])),
            ("no Pacific date", base.without("auto_renew_status_change_date_pst")),
            ("text date of the body", base.with(["auto_renew_status_change_date": "2022-02-03 00:00:01 Etc/GMT"])),
            ("text date of a row", base.withRow(["purchase_date": "2022-02-01 00:00:01 Etc/GMT"])),
            ("row order", newBodyWithRows(rows.reversed())),
            ("spelling of the environment", base.with(["environment": "Production"])),
            ("unknown key", base.with(["something_new": "1"])),
        ])
    func unchanged(change: (name: String, body: JSON)) throws {
        #expect(try key(change.body) == key(base), "\(change.name)")
    }

    private static func newBodyWithRows(_ rows: [JSON]) -> JSON {
        base.withUnified(["latest_receipt_info": .array(rows)])
    }

    @Test(
        "a change of any fact changes the fingerprint",
        arguments: [
            ("environment", base.with(["environment": "Sandbox"]).withUnified(["environment": "Sandbox"])),
            ("bundle id", base.with(["bid": "com.example.other"])),
            ("type", base.with(["notification_type": "DID_RENEW"])),
            ("auto-renew status", base.with(["auto_renew_status": "false"])),
            ("auto-renew product", base.with(["auto_renew_product_id": .text(premium)])),
            ("change date", base.with(["auto_renew_status_change_date_ms": milliseconds("2022-02-04")])),
            ("expiration intent", base.with(["expiration_intent": "1"])),
            ("subscription", base.with(["original_transaction_id": .text(testSubscription)])),
            ("cancellation", base.with(["cancellation_date_ms": milliseconds("2022-02-04")])),
            ("row: transaction", base.withRow(["transaction_id": "1000000000000009"])),
            ("row: web order line item", base.withRow(["web_order_line_item_id": "9"])),
            ("row: product", base.withRow(["product_id": .text(premium)])),
            ("row: purchase", base.withRow(["purchase_date_ms": milliseconds("2022-02-02")])),
            ("row: expiry", base.withRow(["expires_date_ms": milliseconds("2022-03-02")])),
            ("row: cancellation", base.withRow(["cancellation_date_ms": milliseconds("2022-02-02")])),
            ("row: upgraded", base.withRow(["is_upgraded": "true"])),
            ("row: one less", newBodyWithRows([rows[0]])),
            ("row: none", newBodyWithRows([])),
            ("row: one more", newBodyWithRows(rows + [newRow("1000000000000003", "2022-03-01", "2022-04-01")])),
            ("renewal: subscription", base.withPending(["original_transaction_id": "3000000000000001"])),
            ("renewal: product", base.withPending(["product_id": .text(premium)])),
            ("renewal: next product", base.withPending(["auto_renew_product_id": .text(premium)])),
            ("renewal: status", base.withPending(["auto_renew_status": "0"])),
            ("renewal: retry", base.withPending(["is_in_billing_retry_period": "1"])),
            ("renewal: retry over", base.withPending(["is_in_billing_retry_period": "0"])),
            ("renewal: grace", base.withPending(["grace_period_expires_date_ms": milliseconds("2022-03-17")])),
            ("renewal: intent", base.withPending(["expiration_intent": "2"])),
            ("renewal: price", base.withPending(["price_consent_status": "0"])),
        ])
    func changed(change: (name: String, body: JSON)) throws {
        #expect(try key(change.body) != key(base), "\(change.name)")
    }

    @Test("bodies with different changes have different fingerprints")
    func distinct() throws {
        let bodies = [
            base, base.withRow(["cancellation_date_ms": milliseconds("2022-02-04")]),
            base.with(["cancellation_date_ms": milliseconds("2022-02-04")]),
            base.with(["expiration_intent": "1"]), base.withPending(["expiration_intent": "1"]),
            base.withPending(["is_in_billing_retry_period": "1"]), base.withPending(["price_consent_status": "1"]),
        ]

        #expect(Set(try bodies.map { try key($0) }).count == bodies.count)
    }

    @Test("adjacent fields are delimited")
    func boundaries() throws {
        let left = base.withRow(["web_order_line_item_id": "91", "product_id": "1a"])
        let right = base.withRow(["web_order_line_item_id": "911", "product_id": "a"])

        #expect(try key(left) != key(right))
    }

    @Test("the same content has one fingerprint under the expired keys and as an array of one")
    func sameContent() throws {
        let row = oldRow("1000000000000001", "2019-01-01", "2019-02-01")

        let latest = try key(oldBody("DID_CHANGE_RENEWAL_STATUS", row: row))
        let expired = try key(oldBody("DID_CHANGE_RENEWAL_STATUS", row: row, expired: true))
        let array = try key(oldBody("DID_CHANGE_RENEWAL_STATUS", row: [row]))

        #expect(expired == latest)
        #expect(array == latest)
    }

    @Test("the published samples of one event have one fingerprint")
    func samples() throws {
        let latest = try event(fixture: "seed000-did-change-renewal-status")
        let expired = try event(fixture: "seed000-did-change-renewal-status.expired-keys")

        #expect(latest.fingerprint == expired.fingerprint)
    }

    @Test("whitespace and the order of keys do not change the fingerprint")
    func layout() throws {
        guard case .object(let members) = base else { return }
        let reordered = JSON.object(members.reversed())
        let spaced = Array(base.written.replacing(", ", with: ",\n\t").utf8)

        let spacedKey = try AppleNotification(decoding: spaced).event(receivedAt: day("2026-01-01")).fingerprint

        #expect(try key(reordered) == key(base))
        #expect(try spacedKey == key(base))
    }

    @Test("five hundred bodies with random facts have five hundred fingerprints")
    func random() throws {
        var generator = TestSeed.generator(3)
        var bodies: Set<String> = []
        while bodies.count < 500 {
            let id = String(Int.random(in: 1...3, using: &generator))
            let product = generator.chance(50) ? monthly : premium
            let dates = (0..<2).map { _ in JSON.text("16410000\(Int.random(in: 10...60, using: &generator))000") }
            let status = generator.chance(50) ? "true" : "false"
            bodies.insert(
                base.withRow(["web_order_line_item_id": .text(id), "product_id": .text(product)])
                    .withRow(["purchase_date_ms": dates[0], "expires_date_ms": dates[1]])
                    .with(["auto_renew_status": .text(status)]).written)
        }

        let keys = try bodies.map { text in
            try AppleNotification(decoding: Array(text.utf8)).event(receivedAt: day("2026-01-01")).fingerprint
        }

        #expect(Set(keys).count == 500)
    }
}
