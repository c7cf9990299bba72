import Foundation
import SubledgerClient

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

// What follows is in the article Client, to the letter.

/// Asks the app's backend, which knows who is logged in, for a short-lived JWT with `sub` and `exp`.
actor BackendAssertion: UserAssertion {
    let address: URL
    private var kept: String?

    init(address: URL) {
        self.address = address
    }

    func text(isRenewal: Bool) async throws -> String? {
        if let kept, !isRenewal { return kept }
        let (data, _) = try await URLSession.shared.data(from: address)
        kept = String(decoding: data, as: UTF8.self)
        return kept
    }
}

enum Purchases {
    static let subledger = Subledger(
        Configuration(
            app: "com.example.magazine",
            keys: [ServerKey("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo")].compactMap(\.self),
            products: ["com.example.magazine.monthly": ["plus"]]),
        store: StoreKitStore.shared,
        transport: URLSessionTransport(
            base: URL(string: "https://purchases.example.com")!,
            publishableToken: "slt_0e1c4e7ba377_a656e759348e7ff3f91635c9e657c68bbcbc7b5610b0a890c55efce1daceb7dc"),
        cache: FileCache(
            folder: FileManager.default.urls(for: .applicationSupportDirectory, in: .userDomainMask)[0]
                .appendingPathComponent("Subledger")))
}
