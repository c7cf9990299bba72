import Encoding
import Hummingbird
import Readers
import Subscriptions

// How requests identify customers, and what is returned if they identify none or several.
extension CustomerRoutes {
    /// The customer that the path and the query identify.
    static func reference(
        _ request: Request, _ context: BasicRequestContext
    ) throws -> CustomerReader.Reference {
        let query = RequestQuery(request)
        return CustomerReader.Reference(
            app: try query.text("app"), environment: try query.environment(), id: try customerId(context),
            kind: try query.customerKind())
    }

    static func customerId(_ context: BasicRequestContext) throws -> String {
        let id = try PathParameter.text("customerId", context)
        try LinkStatement.check(id, "customerId")
        return id
    }

    /// The id after which a page of a customer's ids starts; nil for the first page.
    static func after(_ query: RequestQuery) throws(RequestQuery.Malformed) -> CustomerKey? {
        guard let text = try query.text("after") else { return nil }
        guard let cursor = KeyCursor(text) else {
            throw RequestQuery.Malformed(problem: "after must be a cursor from an earlier page", field: "after")
        }
        return cursor.key
    }

    /// The customers that member `customerIds` of a body identifies: each element is an id, or an object with an id and
    /// its kind.
    static func references(
        _ json: JSONValue, _ app: String, _ environment: Subscriptions.Environment
    ) throws -> [CustomerReader.Reference] {
        guard let list = json["customerIds"], list.isArray else {
            throw RequestQuery.Malformed(problem: "customerIds must be an array", field: "customerIds")
        }
        let elements = list.elements(atMost: Limits.customersMax + 1)
        guard elements.count <= Limits.customersMax else {
            throw RequestQuery.Malformed(
                problem: "customerIds must have at most \(Limits.customersMax) elements", field: "customerIds")
        }
        var references: [CustomerReader.Reference] = []
        for (index, element) in elements.enumerated() {
            let path = "customerIds[\(index)]"
            let field = element.isObject ? "\(path).id" : path
            guard let id = element.isObject ? element["id"]?.string : element.string else {
                let expected = element.isObject ? "a string" : "a string, or an object with id and as"
                throw RequestQuery.Malformed(problem: "\(field) must be \(expected)", field: field)
            }
            try LinkStatement.check(id, field)
            let kind = try element["as"].map { try RequestQuery.customerKind($0.string, field: "\(path).as") }
            references.append(CustomerReader.Reference(app: app, environment: environment, id: id, kind: kind))
        }
        return references
    }

    /// The customer of an answer.
    ///
    /// - Throws: A 404 if there is none, a 409 if there are several.
    static func only<Value>(
        _ answer: CustomerReader.Answer<Value>, _ environment: Subscriptions.Environment
    ) throws(Problem) -> Value {
        switch answer {
        case .found(let customer): return customer
        case .unknown: throw Problem(.notFound, "no customer with this id in \(environment.rawValue)")
        case .severalApps(let apps):
            throw Problem(
                .conflict, "several apps have this id: choose one with ?app= (\(apps.joined(separator: ", ")))",
                field: "app")
        case .severalKinds(let kinds):
            throw Problem(
                .conflict,
                "different customers have this id: choose one with ?as= "
                    + "(\(kinds.map(\.rawValue).joined(separator: ", ")))",
                field: "as")
        }
    }
}

extension CustomerReader.Reference {
    /// Writes the members with which each answer about one customer begins.
    func write(_ identity: CustomerReader.Identity, to writer: inout JSONWriter) {
        writer.member("app", identity.app)
        writer.member("joinedApp", identity.joinedApp)
        writer.member("environment", environment.rawValue)
        writer.member("customerId", id)
        writer.member("knownAs", identity.knownAs.rawValue)
    }
}

extension CustomerReader.Answer<CustomerReader.Found> {
    /// Writes the answer about one of many customers, as members of an object.
    func write(at instant: Instant, to writer: inout JSONWriter) {
        switch self {
        case .found(let customer):
            writer.member("knownAs", customer.identity.knownAs.rawValue)
            writer.key("entitlements")
            writer.array(customer.entitlements) { $1.write(at: instant, to: &$0) }
        case .severalKinds(let kinds):
            writer.key("ambiguous")
            writer.array(kinds) { $0.value($1.rawValue) }
        // The request names one app.
        case .unknown, .severalApps: writer.member("unknown", true)
        }
    }
}
