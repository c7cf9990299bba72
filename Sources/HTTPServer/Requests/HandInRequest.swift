import Encoding
import Subscriptions

// What all requests that hand purchases in have in common.

extension RequestQuery {
    /// The app whose purchases are handed in.
    func app() throws(Malformed) -> String {
        guard let app = try text("app") else { throw Malformed(problem: "app must be a bundle id", field: "app") }
        return app
    }
}

extension JSONValue {
    /// The customer who hands purchases in; nil if the body names none.
    func customerId() throws -> String? {
        guard let value = self["customerId"], !value.isNull else { return nil }
        guard let id = value.string else {
            throw RequestQuery.Malformed(problem: "customerId must be a string", field: "customerId")
        }
        try LinkStatement.check(id, "customerId")
        return id
    }
}
