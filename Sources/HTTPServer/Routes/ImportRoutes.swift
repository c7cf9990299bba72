import Encoding
import EventLog
import Hummingbird
import Subscriptions

/// `POST /imports`: takes purchases of many customers over from another service, as `subledger import` does.
struct ImportRoutes: Sendable {
    let importer: (any PurchaseImport)?
    private let bodies = BodyReader()

    init(importer: (any PurchaseImport)?) {
        self.importer = importer
    }

    func add(to routes: PrivateRoutes) {
        routes.link.post("/imports") { request, _ in try await take(request) }
    }

    private func take(_ request: Request) async throws -> Response {
        let query = RequestQuery(request)
        let apps = ImportRow.Apps(appStore: try query.text("app"), googlePlay: try query.text("googleApp"))
        let environment = try query.environment()
        guard let importer else {
            throw Problem(
                .notImplemented,
                "imports disabled: database user lacks role subledger_receiver, or database is read-only")
        }
        return try await bodies.withJSON(of: request, bytesMax: Limits.importBodyBytesMax) { json in
            let rows = try Self.rows(json).map { row in
                Result { () throws(ImportRow.Malformed) in try Self.row(row, apps, environment) }
            }
            let valid = rows.compactMap { try? $0.get() }
            var taken = try await importer.take(valid, until: .now + Limits.importWaitMax)[...]
            let outcomes = rows.map { row -> ImportOutcome in
                switch row {
                case .success: taken.popFirst() ?? .unavailable("not asked yet")
                case .failure(let malformed): .refused(malformed.description)
                }
            }
            return JSONResponse.json(.ok) { writer in
                writer.key("rows")
                writer.array(outcomes) { writer, outcome in
                    writer.object { writer in
                        writer.member("result", outcome.label)
                        writer.member("reason", outcome.reason)
                    }
                }
            }
        }
    }

    private static func rows(_ json: JSONValue) throws(RequestQuery.Malformed) -> [JSONValue] {
        guard let list = json["rows"], list.isArray else {
            throw RequestQuery.Malformed(problem: "rows must be an array", field: "rows")
        }
        let rows = list.elements(atMost: Limits.importRowsMax + 1)
        guard (1...Limits.importRowsMax).contains(rows.count) else {
            throw RequestQuery.Malformed(
                problem: "rows must have 1 to \(Limits.importRowsMax) elements", field: "rows")
        }
        return rows
    }

    private static func row(
        _ json: JSONValue, _ apps: ImportRow.Apps, _ environment: Subscriptions.Environment
    ) throws(ImportRow.Malformed) -> ImportRow {
        let fields = try ImportRow.texts(of: json)
        return try ImportRow(apps: apps, environment: environment) { fields[$0] }
    }
}
