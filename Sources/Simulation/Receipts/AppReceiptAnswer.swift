import Encoding
import Subscriptions

/// The answer to an app receipt, in the style of iOS 7: the state of the Apple Account at an instant.
struct AppReceiptAnswer {
    let account: SimulatedAccount
    let app: SimulatedApp
    let seal: ReceiptSeal
    let seed: UInt64
    /// When the app's receipt was made.
    let createdAt: Instant
    /// When the store is asked.
    let instant: Instant
    /// Only the newest transaction of each subscription, as `exclude-old-transactions` demands.
    let isNewestOnly: Bool

    /// Rows of an old sandbox account, 1 MiB and more.
    private static let paddingRows = 1600
    /// The app finishes a consumable within this time, and the next receipt no longer contains it.
    private static let consumableMilliseconds: Int64 = 60_000

    func answer(_ fault: StoreFault?) -> VerifyReceipt.Answer {
        let receipt = account.receipt(at: instant)
        let isEmpty = fault == .withoutPurchases
        let isPadded = fault == .padded && app.environment == .sandbox
        var writer = JSONWriter(bytesExpected: isPadded ? 2 << 20 : 32 << 10)
        writer.object { writer in
            writer.member("environment", app.environmentName)
            writer.key("receipt")
            writer.object { writeReceipt(isEmpty: isEmpty, to: &$0) }
            if !isEmpty, hasBoughtSubscription {
                writer.key("latest_receipt_info")
                writeRows(receipt.lastingRows, isPadded: isPadded, to: &writer)
                writer.member(
                    "latest_receipt",
                    Base64.text(seal.receipt(of: account.key, app: app, createdAt: max(instant, createdAt))))
                writer.key("pending_renewal_info")
                receipt.writePending(to: &writer)
            }
            writer.member("status", 0)
        }
        return VerifyReceipt.Answer(status: 0, body: writer.bytes, account: account.key)
    }

    private var hasBoughtSubscription: Bool {
        account.receipt(at: instant).rows.contains { $0.purchase.product.kind == .autoRenewable }
    }
}

// MARK: - Lists of purchases

extension AppReceiptAnswer {
    /// Writes the rows in any order.
    private func writeRows(_ rows: [V1Receipt.Row], isPadded: Bool, to writer: inout JSONWriter) {
        var random = SplitMix64(
            seed: seed, UInt64(account.key.story), UInt64(account.key.number), UInt64(instant.milliseconds))
        let listed = isNewestOnly ? Self.newest(of: rows) : rows
        writer.array((listed + (isPadded ? padding(like: rows) : [])).shuffled(using: &random)) {
            $1.write(in: .latestReceiptInfo, to: &$0)
        }
    }

    /// - Parameter rows: Newest first.
    private static func newest(of rows: [V1Receipt.Row]) -> [V1Receipt.Row] {
        var seen: Set<String> = []
        return rows.filter { seen.insert($0.original.transactionId).inserted }
    }

    /// The expired renewals of a test subscription, three minutes each, long before the stories.
    private func padding(like rows: [V1Receipt.Row]) -> [V1Receipt.Row] {
        guard let row = rows.first else { return [] }
        let first = StoryWindow.standard.start.advanced(byMilliseconds: -300 * Draw.dayMilliseconds)
        let purchases = (0..<Self.paddingRows).map { number in
            let start = first.advanced(byMilliseconds: Int64(number) * 180_000)
            let id = "1\(row.original.transactionId.dropFirst().prefix(11))\(Self.fourDigits(number))"
            return Purchase(
                transactionId: id, webOrderLineItemId: "9\(id.dropFirst())",
                product: .subscription(.basic, .weekly, of: app.bundleId), purchaseDate: start,
                expiresDate: start.advanced(byMilliseconds: 180_000), reason: number == 0 ? .purchase : .renewal,
                offer: nil, price: 0, quantity: 1)
        }
        return purchases.map { V1Receipt.Row(purchase: $0, original: purchases[0], ownership: "PURCHASED") }
    }

    private static func fourDigits(_ number: Int) -> String { String(String(10_000 + number).dropFirst()) }

    /// The purchases that the device knew when the receipt was made.
    private var inApp: [V1Receipt.Row] {
        account.receipt(at: createdAt).rows.filter {
            $0.purchase.product.kind != .consumable
                || createdAt < $0.purchase.purchaseDate.advanced(byMilliseconds: Self.consumableMilliseconds)
        }
    }
}

// MARK: - The receipt

extension AppReceiptAnswer {
    /// The first download in every sandbox receipt.
    private static let sandboxDownload = Instant(year: 2013, month: 8, day: 1, hour: 7, minute: 0, second: 0)

    private func writeReceipt(isEmpty: Bool, to writer: inout JSONWriter) {
        let isProduction = app.environment == .production
        var random = SplitMix64(seed: seed, UInt64(account.key.story), UInt64(account.key.number), .max - 5)
        writer.member("receipt_type", isProduction ? "Production" : "ProductionSandbox")
        let appId = isProduction ? app.appAppleId ?? 0 : 0
        writer.member("adam_id", appId)
        writer.member("app_item_id", appId)
        writer.member("bundle_id", app.bundleId)
        writer.member("application_version", app.bundleVersion)
        writeDownloadId(isProduction, &random, to: &writer)
        writer.member("version_external_identifier", isProduction ? 850_000_000 : 0)
        writer.dates(
            "receipt_creation_date", "receipt_creation_date_ms", "receipt_creation_date_pst", createdAt)
        writer.dates("request_date", "request_date_ms", "request_date_pst", instant)
        let download = account.firstPurchase.advanced(byMilliseconds: -3 * Draw.dayMilliseconds)
        writer.dates(
            "original_purchase_date", "original_purchase_date_ms", "original_purchase_date_pst",
            isProduction ? download : Self.sandboxDownload)
        writer.member("original_application_version", isProduction ? "12" : "1.0")
        writer.key("in_app")
        writer.array(isEmpty ? [] : inApp.shuffled(using: &random)) { $1.write(in: .inApp, to: &$0) }
    }

    /// Writes a number, digits, or null.
    private func writeDownloadId(_ isProduction: Bool, _ random: inout SplitMix64, to writer: inout JSONWriter) {
        let id: UInt64 = isProduction ? 501_000_000_000_000_000 + random.next() % 1_000_000_000 : 0
        writer.key("download_id")
        switch random.next() % 4 {
        case 0: writer.value(rawJSON: "null")
        case 1: writer.value(String(id))
        default: writer.value(id)
        }
    }
}
