import Testing

@testable import StoreClient

@Suite("Receipts and secrets are sent only over TLS or within this machine")
struct ReceiptAddressesTests {
    @Test(
        "https URLs and http URLs of this machine are accepted",
        arguments: [
            "https://buy.itunes.apple.com/verifyReceipt", "HTTPS://store.example:8443/verifyReceipt?x=1",
            "http://127.0.0.1:8083/verifyReceipt", "http://127.9.0.1/", "http://localhost:1", "http://[::1]:8083/x",
        ])
    func accepted(url: String) {
        #expect(ReceiptAddresses.accepts(url))
    }

    @Test(
        "other URLs are not",
        arguments: [
            "", "verifyReceipt", "http://buy.itunes.apple.com/verifyReceipt", "http://127.example.com/",
            "http://127.0.0.1.example.com/", "http://128.0.0.1/", "http://localhost.example.com/", "https:///x",
            "https://me@store.example/", "https://me:word@store.example/", "ftp://127.0.0.1/", "unix:///tmp/socket",
            "https://store.example/#part",
        ])
    func rejected(url: String) {
        #expect(!ReceiptAddresses.accepts(url))
    }

    @Test("without settings, Apple's hosts are asked")
    func apple() {
        #expect(ReceiptAddresses.apple[.production] == "https://buy.itunes.apple.com/verifyReceipt")
        #expect(ReceiptAddresses.apple[.sandbox] == "https://sandbox.itunes.apple.com/verifyReceipt")
    }
}
