import Encoding
import EventLog
import Hummingbird
import Readers

/// `POST /orders/{orderId}` finds the purchases of an order by the number that a customer names, as `subledger order` does.
/// It is no `GET`, since a store may be asked, and its answer stored.
package struct OrderRoutes: RouteSet {
    private let questions: OrderQuestions?
    private let log: LogReader

    /// - Parameter questions: Nil if this process can append no answer.
    package init(questions: OrderQuestions?, log: LogReader) {
        self.questions = questions
        self.log = log
    }

    package func add(to routes: PrivateRoutes) {
        routes.operate.post("/orders/:orderId") { request, context in
            try await find(try PathParameter.text("orderId", context), app: try RequestQuery(request).text("app"))
        }
    }

    private func find(_ text: String, app: String?) async throws -> Response {
        guard let number = OrderNumber(text) else {
            throw RequestQuery.Malformed(
                problem: "orderId must be an order number such as MK5TTTVWJH or GPA.1234-5678-9012-34567",
                field: "orderId")
        }
        guard let questions else {
            throw Problem(
                .notImplemented,
                "order numbers disabled: database user lacks role subledger_receiver, or database is read-only")
        }
        let answer: OrderSearch.Answer
        do {
            answer = try await questions.purchases(of: number, app: app)
        } catch let error as OrderQuestions.TooMany {
            throw Problem(
                .tooManyRequests, error.description, headers: [.retryAfter: "\(Limits.retryAfterSeconds)"])
        }
        switch answer {
        case .found(let purchases, let stored): return try await response(number, purchases, stored)
        case .notFound(let outcomes):
            let texts = outcomes.compactMap { $0.outcome.problem(number, of: $0.app) }
            throw Problem(
                outcomes.allSatisfy(\.outcome.isFinal) ? .notFound : .serviceUnavailable,
                texts.joined(separator: "; "), field: "orderId")
        case .noApp:
            throw Problem(
                .notFound,
                "no app with a key for \(number.store.shop) is configured\(app == nil ? "" : " by this name")",
                field: "app")
        }
    }

    private func response(
        _ number: OrderNumber, _ purchases: [OrderSearch.Purchase], _ stored: [HandInAnswer]
    ) async throws -> Response {
        var isProjected = true
        for answer in stored where isProjected {
            isProjected = try await log.isProjected(answer, wait: Limits.projectionWaitMax)
        }
        return JSONResponse.json(.ok) { writer in
            writer.member("orderId", number.text)
            writer.member("store", number.store.rawValue)
            writer.key("purchases")
            writer.array(purchases) { writer, purchase in
                writer.object { writer in
                    writer.member("app", purchase.app)
                    writer.member("environment", purchase.environment)
                    writer.member("originalTransactionId", purchase.originalTransactionId)
                    writer.member("position", purchase.position)
                }
            }
            writer.member("projected", isProjected)
        }
    }
}
