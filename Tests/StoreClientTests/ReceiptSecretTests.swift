import AppStore
import Testing

@testable import StoreClient

@Suite("An app's secrets are tried in order")
struct ReceiptSecretTests {
    private let both = ReceiptBundle.app(secrets: [ReceiptBundle.secret, ReceiptBundle.nextSecret])

    @Test("the current secret is sent first, and the next one only if it is rejected")
    func order() async {
        let bundle = ReceiptBundle(FakeStore(production: [.status(0), .status(21004), .status(0)]))

        let first = await bundle.ask(app: both)
        let second = await bundle.ask(app: both)

        #expect([first.text, second.text] == ["answered by production", "answered by production"])
        let texts = bundle.store.requests.map(\.text)
        #expect(texts.map { $0.contains(ReceiptBundle.secret) } == [true, true, false])
        #expect(texts.map { $0.contains(ReceiptBundle.nextSecret) } == [false, false, true])
        #expect(bundle.log.text.isEmpty)
    }

    @Test("the secret that production accepted is sent to the sandbox")
    func sandbox() async {
        let bundle = ReceiptBundle(
            FakeStore(production: [.status(21004), .status(21007)], sandbox: [.status(0)]))

        let outcome = await bundle.ask(app: both)

        #expect(outcome.text == "answered by sandbox")
        #expect(bundle.store.requests.last?.text.contains(ReceiptBundle.nextSecret) == true)
    }

    @Test("if all secrets are rejected, the question ends without a retry", arguments: 0...2)
    func rejected(count: Int) async {
        let secrets = [ReceiptBundle.secret, ReceiptBundle.nextSecret].prefix(count)
        let calls = max(1, count)
        let bundle = ReceiptBundle(
            FakeStore(production: [FakeStore.Reply](repeating: .status(21004), count: calls)))

        let outcome = await bundle.ask(app: ReceiptBundle.app(secrets: Array(secrets)))

        #expect(outcome.text == "secret rejected")
        #expect(bundle.store.requests.count == calls)
    }

    @Test("a rejected secret is logged once per app and hour, without the secret or the receipt")
    func alarm() async {
        let bundle = ReceiptBundle(FakeStore { _ in .status(21004) }, clock: ManualClock())
        let other = ReceiptBundle.app(bundleId: "com.example.other")

        for _ in 0..<3 { _ = await bundle.ask() }
        _ = await bundle.ask(app: other)
        let lines = bundle.log.text.split(separator: "\n").map(String.init)
        bundle.clock.advance(by: .seconds(3599))
        _ = await bundle.ask()
        let almost = bundle.log.text.split(separator: "\n").count
        bundle.clock.advance(by: .seconds(1))
        _ = await bundle.ask()
        let after = bundle.log.text.split(separator: "\n").count

        #expect(lines.count == 2 && almost == 2 && after == 3)
        #expect(lines.allSatisfy { $0.hasPrefix("error shared secret rejected by the App Store") })
        #expect(lines[0].contains("com.example.app") && lines[1].contains("com.example.other"))
        #expect(!bundle.log.text.contains(ReceiptBundle.secret))
        #expect(!bundle.log.text.contains(ReceiptBundle.receipt().base64))
    }
}
