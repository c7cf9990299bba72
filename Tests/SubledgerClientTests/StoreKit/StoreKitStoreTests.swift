import Foundation
import SubledgerClient
import Testing

#if STOREKIT_STUB
    @Suite("The adapter for StoreKit compiles against a stub of its declarations")
    struct StoreKitStoreTests {
        @Test("it is a store, and asks StoreKit for what the client asks it")
        func adapter() async throws {
            let store: any Store = StoreKitStore.shared

            #expect(try await store.products(["pro.monthly"]) == [])
            await #expect(throws: StoreKitStore.UnknownProduct(id: "pro.monthly")) {
                try await store.purchase("pro.monthly", by: UUID(), options: PurchaseOptions())
            }
            #expect(await store.unfinished() == [])
            #expect(await store.current() == [])
            #expect(try await store.appTransaction() == "")
        }
    }
#endif
