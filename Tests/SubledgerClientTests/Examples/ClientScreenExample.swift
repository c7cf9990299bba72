import SubledgerClient

#if canImport(SwiftUI)
    import SwiftUI
#endif

// What follows is in the article Client, to the letter.

@MainActor
final class PurchaseModel: ObservableObject {
    @Published private(set) var entitlements: Entitlements?
    @Published private(set) var products: [StoreProduct] = []
    @Published private(set) var message: String?
    @Published private(set) var isBusy = false
    private let subledger = Purchases.subledger

    /// Runs as long as the screen is shown.
    func follow() async {
        products = (try? await subledger.products(["com.example.magazine.monthly"])) ?? []
        for await entitlements in subledger.entitlements { self.entitlements = entitlements }
    }

    func buy(_ product: StoreProduct) async {
        await work { entitlements = try await subledger.purchase(product.id) }
    }

    func restore() async {
        await work {
            let found = try await subledger.restore()
            entitlements = found.entitlements
            message = found.productIds.isEmpty ? "There is nothing to restore." : nil
        }
    }

    private func work(_ call: () async throws -> Void) async {
        isBusy = true
        defer { isBusy = false }
        do {
            message = nil
            try await call()
        } catch SubledgerError.purchaseCancelled {
            // The user knows.
        } catch SubledgerError.purchasePending {
            message = "Waiting for approval."
        } catch SubledgerError.unreachable {
            message = "No connection. Your purchases are safe."
        } catch {
            message = "\(error)"
        }
    }
}

struct PurchaseScreen: View {
    @StateObject private var model = PurchaseModel()
    @Environment(\.scenePhase) private var phase

    var body: some View {
        List {
            if model.entitlements?.isActive("plus") == true {
                Label("Plus is active", systemImage: "checkmark.seal")
            } else {
                ForEach(model.products) { product in
                    Button("\(product.displayName), \(product.displayPrice)") { Task { await model.buy(product) } }
                }
            }
            if model.entitlements?.trust == .expired { Text("Connect to the internet to check your purchases.") }
            if let message = model.message { Text(message) }
            Button("Restore purchases") { Task { await model.restore() } }
        }
        .disabled(model.isBusy)
        .task { await model.follow() }
        .onChange(of: phase) { phase in
            if phase == .active { Task { try? await Purchases.subledger.refresh() } }
        }
    }
}
