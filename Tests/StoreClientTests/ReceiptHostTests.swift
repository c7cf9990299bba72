import AppStore
import Testing

@testable import StoreClient

@Suite("Production is asked first, and the sandbox only if production refers to it")
struct ReceiptHostTests {
    @Test("a sandbox receipt is asked about once in production and once in the sandbox")
    func sandbox() async {
        let bundle = ReceiptBundle(FakeStore(production: [.status(21007)], sandbox: [.status(0)]))

        let outcome = await bundle.ask()

        #expect(outcome.text == "answered by sandbox")
        #expect(bundle.store.requests.map(\.url) == [FakeStore.productionURL, FakeStore.sandboxURL])
        #expect(bundle.clock.slept.isEmpty)
    }

    @Test("a deleted account is found in the sandbox too")
    func deletedInSandbox() async {
        let bundle = ReceiptBundle(FakeStore(production: [.status(21007)], sandbox: [.status(21010)]))

        let outcome = await bundle.ask()

        #expect(outcome.text == "account deleted, sandbox")
    }

    @Test("hosts that refer to each other are asked once each", arguments: [21007, 21008])
    func loop(second: Int) async {
        let bundle = ReceiptBundle(FakeStore(production: [.status(21007)], sandbox: [.status(second)]))

        let outcome = await bundle.ask()

        #expect(outcome.text == "refused \(second)")
        #expect(bundle.store.requests.count == 2)
    }

    @Test("after the switch, retries go to the sandbox, and both hosts share the number of retries")
    func retries() async {
        let bundle = ReceiptBundle(
            FakeStore(
                production: [.status(21005), .status(21007)],
                sandbox: [.status(21005), .failure(.timeout), .status(21009)]))

        let outcome = await bundle.ask()

        #expect(outcome.text == "unavailable temporary_status, 30.0 seconds")
        #expect(bundle.store.requests.count == 5)
    }
}
