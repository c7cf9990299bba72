import Encoding
import Subscriptions

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
