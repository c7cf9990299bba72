import Foundation
import Simulation
import SubledgerClient

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// The app: one object of the client at a time, and what outlives it.
final class SampleApp {
    static let bundleId = "com.example.magazine"

    private let network: Network
    private let keys: [ServerKey]
    private let user: UUID
    private let assertion: any UserAssertion
    private let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
    private let store: FakeStore
    private var subledger: Subledger

    init(network: Network, keys: [ServerKey], user: UUID, assertion: any UserAssertion) {
        self.network = network
        self.keys = keys
        self.user = user
        self.assertion = assertion
        let signer = JWSSigner(.standard)
        store = FakeStore(
            ["monthly", "yearly"].map { name in
                FakeStore.Plan(
                    StoreProduct(id: name, displayName: name, displayPrice: "4.99 €"),
                    seconds: name == "monthly" ? 2_592_000 : 31_536_000)
            }, clock: SystemClock()
        ) { Self.sign($0, signer) }
        subledger = Self.makeClient(network, keys, store, folder)
    }

    deinit {
        try? FileManager.default.removeItem(at: folder)
    }

    private static func makeClient(
        _ network: Network, _ keys: [ServerKey], _ store: FakeStore, _ folder: URL
    ) -> Subledger {
        Subledger(
            Configuration(app: bundleId, keys: keys), store: store, transport: network, cache: FileCache(folder: folder)
        )
    }

    /// The keys of the server. A real app contains them.
    static func keys(of base: URL) async throws -> [ServerKey] {
        struct KeySet: Decodable {
            let keys: [Key]
            struct Key: Decodable { let x: String }
        }
        let (data, _) = try await URLSession.shared.data(from: base.appendingPathComponent(".well-known/jwks.json"))
        return try JSONDecoder().decode(KeySet.self, from: data).keys.compactMap { ServerKey($0.x) }
    }

    /// The text of a transaction, as Apple would sign it.
    private static func sign(_ sale: FakeStore.Sale, _ signer: JWSSigner) -> String {
        func milliseconds(_ date: Date) -> Int64 { Int64(date.timeIntervalSince1970 * 1000) }
        let id = 2_000_000_000_000_000 + (Int(sale.id) ?? 0)
        let revocation = sale.revocationDate.map { ",\"revocationDate\":\(milliseconds($0)),\"revocationReason\":0" }
        let payload = """
            {"transactionId":"\(id)","originalTransactionId":"\(id)","bundleId":"\(bundleId)",\
            "productId":"\(sale.productId)","purchaseDate":\(milliseconds(sale.purchaseDate)),\
            "expiresDate":\(milliseconds(sale.expirationDate ?? .distantFuture)),\
            "appAccountToken":"\(sale.user?.uuidString.lowercased() ?? "")",\
            "type":"Auto-Renewable Subscription","environment":"Production",\
            "signedDate":\(milliseconds(sale.revocationDate ?? sale.purchaseDate))\(revocation ?? "")}
            """
        return String(decoding: signer.sign(Array(payload.utf8)), as: UTF8.self)
    }

    /// Runs the commands of standard input: `start`, `buy PRODUCT`, `lose network`, `find network`, `restart`, `restore`,
    /// `refresh`, `entitlements`.
    func run() async {
        while let line = readLine() {
            let words = line.split(separator: " ")
            guard let command = words.first else { continue }
            print("> \(line)")
            do {
                try await perform(String(command), words.dropFirst().joined(separator: " "))
            } catch {
                print("  \(error)")
            }
        }
    }

    private func perform(_ command: String, _ argument: String) async throws {
        switch command {
        case "start": try await subledger.start(user: user, assertion: assertion)
        case "buy": show(try await subledger.purchase(argument))
        case "lose": network.set(isLost: true)
        case "find": network.set(isLost: false)
        case "restart":
            await subledger.signOut()
            subledger = Self.makeClient(network, keys, store, folder)
        case "restore":
            let found = try await subledger.restore()
            print("  found: \(found.productIds.joined(separator: ", "))")
            show(found.entitlements)
        case "refresh": show(try await subledger.refresh())
        case "entitlements": show(await subledger.current())
        default: print("  unknown command")
        }
    }

    private func show(_ entitlements: Entitlements) {
        let list = entitlements.active.map { "\($0.id) (\($0.source.rawValue))" }
        print("  \(list.isEmpty ? "nothing" : list.joined(separator: ", ")), \(entitlements.trust.rawValue)")
    }
}
