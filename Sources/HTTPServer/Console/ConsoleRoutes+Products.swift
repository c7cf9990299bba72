import Console
import EventLog
import Hummingbird
import Readers
import Subscriptions

extension ConsoleRoutes {
    func productList(_ visit: ConsoleRequest) async throws -> Outcome {
        let stream = try visit.someStream()
        let listed = try await products.products(of: stream.app)
        var edit: ProductsPage.Edit?
        if let id = try visit.query.text("edit") {
            let product =
                listed.first { $0.productId == id }
                ?? ConfiguredProduct(stored: stream.app, productId: id, kind: nil, duration: nil, entitlements: [])
            edit = ProductsPage.Edit(product: product, preview: nil, problem: nil)
        }
        var page = ProductsPage(
            app: stream.app, products: listed, plans: await plans(stream, visit), edit: edit, address: visit.address)
        page.saved = try visit.query.text("done")
        return .page(page)
    }

    private func plans(_ stream: StreamState, _ visit: ConsoleRequest) async -> [[String?]]? {
        let found = await figures.rows(of: .plans, in: stream, from: "", to: "", at: visit.now)
        return (try? found.get())?.rows
    }

    /// Shows what a change of a product would do, or makes it if it was shown.
    func setProduct(_ request: Request, _ session: ConsoleSession) async throws -> Response {
        try await changing("products", request, session, at: Address("products")) { form, visit in
            try await setProduct(form, visit)
        }
    }

    private func setProduct(_ form: ConsoleQuery, _ visit: ConsoleRequest) async throws -> Response {
        let stream = try visit.someStream()
        let id = try form.text("product") ?? ""
        let entitlements = (try form.text("entitlements") ?? "").split(separator: ",").map {
            String($0.drop { $0 == " " }.reversed().drop { $0 == " " }.reversed())
        }.filter { !$0.isEmpty }
        let listed = try await products.products(of: stream.app)
        let stored =
            listed.first { $0.productId == id }
            ?? ConfiguredProduct(stored: stream.app, productId: id, kind: nil, duration: nil, entitlements: [])
        var edit: ProductsPage.Edit
        do {
            let product = try ConfiguredProduct(
                app: stream.app, productId: id, kind: try form.text("kind"), duration: try form.text("duration"),
                level: try Self.level(form.text("level")), name: try form.text("name")?.trimmed,
                entitlements: entitlements)
            if try form.text("do") == "save", try form.text("previewed") == product.digestText {
                try await products.state(product)
                return ConsoleResponse.seeOther(visit.frame.here(Address("products")).with("done", id).text)
            }
            let preview =
                Self.isOnlyNamed(product, stored)
                ? "This changes what the console calls it, and nothing that customers have."
                : Self.words(try await reader.linesWithAccess(by: id, in: stream))
            edit = ProductsPage.Edit(product: product, preview: preview, problem: nil)
        } catch let malformed as ConfiguredProduct.Malformed {
            edit = ProductsPage.Edit(product: stored, preview: nil, problem: "\(malformed.description).")
        }
        let page = ProductsPage(
            app: stream.app, products: listed, plans: await plans(stream, visit), edit: edit, address: visit.address)
        return ConsoleResponse.html(edit.problem == nil ? .ok : .badRequest, visit.frame.html(page))
    }

    /// Whether two settings differ in the name only.
    private static func isOnlyNamed(_ product: ConfiguredProduct, _ stored: ConfiguredProduct) -> Bool {
        product.name != stored.name
            && (product.kind, product.duration, product.level) == (stored.kind, stored.duration, stored.level)
            && product.entitlements == stored.entitlements
    }

    private static func level(_ text: String?) throws(ConfiguredProduct.Malformed) -> Int? {
        guard let text, !text.isEmpty else { return nil }
        guard let level = Int(text) else {
            throw ConfiguredProduct.Malformed(description: "level must be an integer", field: "level")
        }
        return level
    }

    private static func words(_ lines: Int64?) -> String {
        switch lines {
        case nil: "Counting the subscriptions with this product takes longer than five seconds."
        case 1?: "This changes the entitlements of 1 subscription, its past included."
        case let lines?: "This changes the entitlements of \(lines.grouped) subscriptions, their past included."
        }
    }
}
