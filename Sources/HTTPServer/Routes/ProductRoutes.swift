import Encoding
import EventLog
import Hummingbird
import Readers
import Subscriptions

/// `GET /products?app=` returns the product settings of an app; `PUT /products/{productId}?app=` sets all properties of
/// one product.
struct ProductRoutes: Sendable {
    let products: ProductStore
    private let bodies = BodyReader()

    init(products: ProductStore) {
        self.products = products
    }

    func add(to routes: PrivateRoutes) {
        routes.read.get("/products") { request, _ in try await list(request) }
        routes.admin.put("/products/:productId") { request, context in try await state(request, context) }
    }

    private func list(_ request: Request) async throws -> Response {
        let app = try RequestQuery(request).app()
        let found = try await products.products(of: app)
        return JSONResponse.json(.ok) { writer in
            writer.member("app", app)
            writer.key("products")
            writer.array(found) { writer, product in writer.object { product.writeMembers(to: &$0) } }
        }
    }

    private func state(_ request: Request, _ context: BasicRequestContext) async throws -> Response {
        let app = try RequestQuery(request).app()
        let id = try PathParameter.text("productId", context)
        let body = try await bodies.withBody(of: request) { $0 }
        let product: ConfiguredProduct
        do {
            product = try Self.product(app, id, body)
        } catch let error as ConfiguredProduct.Malformed {
            throw RequestQuery.Malformed(problem: error.description, field: error.field)
        }
        try await products.state(product)
        return JSONResponse.json(.ok) { writer in
            writer.member("app", app)
            product.writeMembers(to: &writer)
        }
    }

    /// Reads `{"kind","duration","level","name","entitlements":[…]}`; all members are optional.
    private static func product(_ app: String, _ productId: String, _ body: [UInt8]) throws -> ConfiguredProduct {
        guard let root = try? JSONDocument(body).root, root.isObject else {
            throw RequestQuery.Malformed(problem: "the body must be a JSON object")
        }
        let known: Set = ["kind", "duration", "level", "name", "entitlements"]
        // Ignoring a misspelt name would silently clear the property.
        if let unknown = root.members.first(where: { !known.contains($0.key.string ?? "") }) {
            throw RequestQuery.Malformed(problem: "unknown member \"\(unknown.key.string ?? "")\"")
        }
        return try ConfiguredProduct(
            app: app, productId: productId, kind: try text(root["kind"], "kind"),
            duration: try text(root["duration"], "duration"), level: try number(root["level"], "level"),
            name: try text(root["name"], "name"), entitlements: try texts(root["entitlements"]))
    }

    private static func text(_ value: JSONValue?, _ name: String) throws(RequestQuery.Malformed) -> String? {
        guard let value, !value.isNull else { return nil }
        guard let text = value.string else {
            throw RequestQuery.Malformed(problem: "\(name) must be a string", field: name)
        }
        return text
    }

    private static func number(_ value: JSONValue?, _ name: String) throws(RequestQuery.Malformed) -> Int? {
        guard let value, !value.isNull else { return nil }
        guard let number = value.integer else {
            throw RequestQuery.Malformed(problem: "\(name) must be an integer", field: name)
        }
        return Int(number)
    }

    private static func texts(_ value: JSONValue?) throws(RequestQuery.Malformed) -> [String] {
        guard let value, !value.isNull else { return [] }
        let texts = value.elements.compactMap(\.string)
        guard value.isArray, texts.count == value.elements.count else {
            throw RequestQuery.Malformed(problem: "entitlements must be an array of strings", field: "entitlements")
        }
        return texts
    }
}
