import Encoding
import Simulation
import Testing

@Suite("A simulated receipt can be read by its store only")
struct ReceiptSealTests {
    private static let seal = ReceiptSeal(seed: 7)

    private static func contents(_ style: ReceiptStyle, story: Int = 41) -> ReceiptSeal.Contents {
        ReceiptSeal.Contents(
            account: SimulatedAccount.Key(story: story, number: 1), style: style, app: testApp,
            createdAt: day("2025-03-27T10:20:30.456Z"))
    }

    @Test("the store reads what it sealed, from receipts of any length", arguments: [0, 1000, 12_000, 70_000])
    func roundTrip(bytes: Int) {
        for style in [ReceiptStyle.app, .transaction] {
            let contents = Self.contents(style)

            let receipt = Self.seal.receipt(contents, bytes: bytes)

            #expect(Self.seal.open(receipt) == .contents(contents))
            #expect(receipt == Self.seal.receipt(contents, bytes: bytes))
            if style == .app, bytes > 100 { #expect(receipt.count == bytes || bytes > 1 << 16) }
        }
    }

    @Test("an app receipt begins like DER, a transaction receipt like a property list")
    func forms() {
        #expect(Self.seal.receipt(Self.contents(.app), bytes: 900).first == 0x30)
        #expect(
            Self.seal.receipt(Self.contents(.transaction), bytes: 900).starts(
                with: "{\n\t\"purchase-info\" = \"".utf8))
    }

    @Test("no byte can be changed, and another store reads nothing", arguments: [ReceiptStyle.app, .transaction])
    func altered(style: ReceiptStyle) {
        let receipt = Self.seal.receipt(Self.contents(style), bytes: 200)

        for index in receipt.indices {
            var changed = receipt
            changed[index] ^= 1
            if case .contents = Self.seal.open(changed) { Issue.record("byte \(index) was changed") }
        }
        #expect(ReceiptSeal(seed: 8).open(receipt) == .altered)
        #expect(Self.seal.open(Array(receipt.dropLast())) == .malformed)
        #expect(Self.seal.open([]) == .malformed)
        #expect(Self.seal.open(Array("no receipt".utf8)) == .malformed)
    }

    @Test("receipts of neighbouring stories have unrelated bytes that look random")
    func opaque() {
        let first = Self.seal.receipt(Self.contents(.app, story: 1), bytes: 4000)
        let second = Self.seal.receipt(Self.contents(.app, story: 2), bytes: 4000)

        // Two random texts agree in one byte of 256; the first four bytes are the form.
        #expect(zip(first, second).count(where: { $0 == $1 }) < 60)
        // A random text of this length has nearly all values, none of them often.
        let counts = Dictionary(grouping: first, by: { $0 }).mapValues(\.count)
        #expect(counts.count > 250 && (counts.values.max() ?? 0) < 50)
    }
}
