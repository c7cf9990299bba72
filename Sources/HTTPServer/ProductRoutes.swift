import EventLog
import Foundation
import HTTPTypes
import Hummingbird
import Logging
import Projector
import Subscriptions

/// `GET /products?app=`: what the owner has said of an app's products. `PUT /products/{productId}?app=`: says it of one
/// of them, as a whole.
struct ProductRoutes: Sendable {
    let products: ProductStore
    let logger: Logger
    private let bodies = BodyReader()

    init(products: ProductStore, logger: Logger) {
        self.products = products
        self.logger = logger
    }

    func add(to router: Router<BasicRequestContext>) {
        router.get("/products") { request, _ in await list(request) }
        router.put("/products/:productId") { request, context in await state(request, context) }
    }

    private func list(_ request: Request) async -> Response {
        do {
            let app = try Self.app(request)
            let found = try await products.products(of: app)
            return Answer.json(.ok) { writer in
                writer.member("app", app)
                writer.key("products")
                writer.array(found) { writer, product in writer.object { product.writeMembers(to: &$0) } }
            }
        } catch let error as Query.Malformed {
            return Answer.error(.badRequest, error.problem)
        } catch {
            return readFailure(error, logger)
        }
    }

    private func state(_ request: Request, _ context: BasicRequestContext) async -> Response {
        do {
            let app = try Self.app(request)
            guard let id = context.parameters.get("productId")?.removingPercentEncoding else {
                throw Query.Malformed(problem: "the product id is not percent-encoded UTF-8")
            }
            let body = try await bodies.withBody(of: request) { $0 }
            let product = try Self.product(app, id, body)
            try await products.state(product)
            return Answer.json(.ok) { writer in
                writer.member("app", app)
                product.writeMembers(to: &writer)
            }
        } catch let error as Query.Malformed {
            return Answer.error(.badRequest, error.problem)
        } catch let error as ConfiguredProduct.Malformed {
            return Answer.error(.badRequest, error.description)
        } catch let error as BodyReader.Failure {
            return Self.answer(error)
        } catch {
            return readFailure(error, logger)
        }
    }

    private static func app(_ request: Request) throws(Query.Malformed) -> String {
        guard let app = try Query(request).text("app") else {
            throw Query.Malformed(problem: "app must be a bundle id")
        }
        return app
    }

    /// Reads `{"kind","duration","entitlements":[…]}`, all of which may be left out.
    private static func product(_ app: String, _ productId: String, _ body: [UInt8]) throws -> ConfiguredProduct {
        guard let root = try? JSONDocument(body).root, root.isObject else {
            throw Query.Malformed(problem: "the body must be a JSON object")
        }
        let known: Set = ["kind", "duration", "entitlements"]
        // A misspelt name would otherwise be something that is silently not said.
        if let unknown = root.members.first(where: { !known.contains($0.key.string ?? "") }) {
            throw Query.Malformed(problem: "there is no \"\(unknown.key.string ?? "")\" in a product")
        }
        return try ConfiguredProduct(
            app: app, productId: productId, kind: try text(root["kind"], "kind"),
            duration: try text(root["duration"], "duration"), entitlements: try texts(root["entitlements"]))
    }

    private static func text(_ value: JSONValue?, _ name: String) throws(Query.Malformed) -> String? {
        guard let value, !value.isNull else { return nil }
        guard let text = value.string else { throw Query.Malformed(problem: "\(name) must be a text") }
        return text
    }

    private static func texts(_ value: JSONValue?) throws(Query.Malformed) -> [String] {
        guard let value, !value.isNull else { return [] }
        let texts = value.elements.compactMap(\.string)
        guard value.isArray, texts.count == value.elements.count else {
            throw Query.Malformed(problem: "entitlements must be an array of texts")
        }
        return texts
    }

    private static func answer(_ failure: BodyReader.Failure) -> Response {
        switch failure {
        case .tooLarge: Answer.error(.contentTooLarge, "the body is larger than \(Limits.bodyBytesMax) bytes")
        case .noRoom: Answer.error(.serviceUnavailable, "too many bodies are being received")
        case .tooSlow: Answer.error(.requestTimeout, "the body did not arrive in time")
        case .ending: Answer.error(.serviceUnavailable, "the server is ending")
        case .incomplete: Answer.error(.badRequest, "the body did not arrive as a whole")
        }
    }
}
