import Console
import Encoding
import EventLog
import Hummingbird
import Readers
import Subscriptions

extension ConsoleRoutes {
    /// The requests of the chosen stream, and how many wait in others, by one statement.
    func refundRequests(_ visit: ConsoleRequest) async throws -> Outcome {
        let (chosen, key) = try visit.someStreamKey()
        var others: [(stream: StreamState, keys: [StreamKey])] = []
        for stream in visit.streams.prefix(Limits.consoleRefundStreamsMax) where stream != chosen {
            // Google's requests are shown with those of production.
            let isShown =
                stream.environment == "unknown"
                && visit.streams.contains { $0.app == stream.app && $0.environment == "production" }
            guard !isShown, let environment = Environment(rawValue: stream.environment) else { continue }
            others.append((stream, Self.streams(of: StreamKey(app: stream.app, environment: environment))))
        }
        let own = Self.streams(of: key)
        let streams = Set(own + others.flatMap { $0.keys })
        let latest = Dictionary(
            grouping: try await refunds.latest(in: Array(streams), limit: Limits.consoleRefundsMax), by: \.stream)
        func requests(_ keys: [StreamKey]) -> [RefundRequest] { keys.flatMap { latest[$0] ?? [] } }
        return .page(
            RefundsPage(
                requests: requests(own),
                elsewhere: others.compactMap { RefundsPage.Elsewhere($0.stream, requests($0.keys), at: visit.now) },
                at: visit.now, address: visit.address))
    }

    /// Where the requests about an app in an environment are: Google does not say whether a purchase is a test.
    static func streams(of key: StreamKey) -> [StreamKey] {
        key.environment == .production ? [key, StreamKey(app: key.app, environment: .unknown)] : [key]
    }

    private func request(_ id: String, store: String?, _ key: StreamKey) async throws -> RefundRequest {
        for stream in Self.streams(of: key) {
            let found = try await refunds.request(about: id, in: stream)
            if let found, store == nil || found.store.rawValue == store { return found }
        }
        throw ConsoleProblem(
            .notFound, "No such request", "No store asked about a refund of this purchase.",
            choices: [("Refund requests", Address("refunds"))])
    }

    func refundRequest(_ visit: ConsoleRequest, id: String) async throws -> Outcome {
        let (_, key) = try visit.someStreamKey()
        var page = try await page(about: try await request(id, store: visit.query.text("store"), key), visit)
        page.followsAct = try visit.query.text("done") == "answered"
        return .page(page)
    }

    private func page(about found: RefundRequest, _ visit: ConsoleRequest) async throws -> RefundPage {
        var page = RefundPage(
            request: found, at: visit.now,
            canBeAnswered: acts.refunds != nil && acts.refundApps.answerable.contains(found.stream.app),
            address: visit.address)
        page.bought = try await bought(found)
        return page
    }

    /// The transaction that a request is about; nil if it is not known.
    private func bought(_ request: RefundRequest) async throws -> RefundPage.Bought? {
        guard let id = request.purchase.originalTransactionId else { return nil }
        let stored = try await subscriptions.subscriptions([id], in: request.answerStream).first
        guard let subscription = stored?.subscription else { return nil }
        let row = subscription.transactions.first {
            $0.transaction.transactionId == request.purchase.transactionId
        }
        return row.map { RefundPage.Bought($0.transaction, of: subscription) }
    }

    /// Shows what an answer would say, or states it if it was shown.
    func answerRefund(_ request: Request, _ session: ConsoleSession, id: String) async throws -> Response {
        try await acting("answers to refund requests", request, session, at: Address("refunds", id)) { form, visit in
            let (_, key) = try visit.someStreamKey()
            guard let log = acts.refunds, acts.refundApps.answerable.contains(key.app) else {
                throw ConsoleProblem(
                    .conflict, "Not done", "This server has no key with which the store can be answered.")
            }
            let found = try await self.request(id, store: form.text("store"), key)
            let content = try Self.content(form)
            if let problem = content.flatMap(found.problem) {
                throw ConsoleProblem(.badRequest, "Not done", Self.words(problem))
            }
            if let content, let problem = try await page(about: found, visit).problem(with: content) {
                throw ConsoleProblem(.badRequest, "Not done", problem)
            }
            let own = visit.frame.here(Address("refunds", id)).with("store", found.store.rawValue)
            guard found.awaitsAnswer(at: visit.now) else {
                throw ConsoleProblem(.conflict, "Not done", "Nothing was stated: \(found.refusalWords).")
            }
            guard try form.text("do") == "answer-now" else {
                return ConsoleResponse.html(.ok, visit.frame.html(Self.preview(found, content, form, visit, own)))
            }
            let isStated = try await log.state(
                content, about: id, in: found.stream, by: visit.session.actor, at: visit.now)
            let stated = try await self.request(id, store: found.store.rawValue, key)
            guard stated.answer?.content == content, isStated || stated.answer?.state == .accepted else {
                throw ConsoleProblem(.conflict, "Not done", "Nothing was stated: \(stated.refusalWords).")
            }
            logger.info(
                "answer to refund request stated",
                metadata: ["stream.app": "\(key.app)", "console.token": "\(session.tokenId)"])
            return ConsoleResponse.seeOther(own.with("done", "answered").text)
        }
    }

    private static func preview(
        _ request: RefundRequest, _ content: ConsumptionAnswer?, _ form: ConsoleQuery, _ visit: ConsoleRequest,
        _ own: Address
    ) -> ActPage {
        let (store, id) = (request.store.name, request.purchase.transactionId)
        var effects = [
            "The customer has consented that \(store) is told how purchase \(id) was used. \(store) is told:"
        ]
        if let content {
            effects += content.words(for: request.store)
        } else {
            effects = ["The customer has not consented, so \(request.store.name) is told nothing."]
        }
        if request.answer != nil { effects.append("This replaces the answer that was stated before.") }
        let fields = ["consented", "sample", "delivery", "percentage", "preference"].map { name in
            (name, (try? form.text(name)) ?? "")
        }
        return ActPage(
            title: "Answer \(request.store.name)", effects: effects, reason: nil, by: visit.session.actor,
            button: content == nil ? "Record it" : "Answer", action: Address("refunds", request.purchase.transactionId),
            fields: [("do", "answer-now"), ("store", request.store.rawValue)] + fields, back: own,
            warning: content == nil
                ? nil
                : "An answer that the store has accepted cannot be changed. Send nothing that the customer has not agreed to."
        )
    }

    /// The answer that a form states; nil without consent.
    private static func content(_ form: ConsoleQuery) throws -> ConsumptionAnswer? {
        switch try form.text("consented") {
        case "yes": break
        case "no": return nil
        default:
            throw ConsoleProblem(
                .badRequest, "Not done", "Say whether the customer has consented: without consent, nothing is sent.")
        }
        guard let sample = try form.text("sample"), ["yes", "no"].contains(sample) else {
            throw ConsoleProblem(
                .badRequest, "Not done", "Choose whether there was a sample or a trial before the purchase.")
        }
        guard let delivery = try form.text("delivery").flatMap(ConsumptionAnswer.Delivery.init(rawValue:)) else {
            throw ConsoleProblem(.badRequest, "Not done", "Choose how the purchase was delivered.")
        }
        var percentage: Int32?
        if let text = try form.text("percentage")?.trimmed {
            guard let percent = Int32(text), (0...100).contains(percent) else {
                throw ConsoleProblem(.badRequest, "Not done", "How much was used must be a number from 0 to 100.")
            }
            percentage = percent * 1000
        }
        do throws(ConsumptionAnswer.Malformed) {
            return try ConsumptionAnswer(
                isSampleProvided: sample == "yes", delivery: delivery, percentage: percentage,
                preference: (try? form.text("preference")).flatMap(ConsumptionAnswer.RefundPreference.init(rawValue:)))
        } catch {
            // How much was used is from 0 to 100 by now.
            throw ConsoleProblem(
                .badRequest, "Not done",
                "“Used, in percent” must be empty or 0 unless the purchase was delivered, and works.")
        }
    }

    /// Why the store would refuse the answer of a form, with the labels of its fields.
    private static func words(_ problem: ConsumptionAnswer.Malformed) -> String {
        switch problem.field {
        case "consumptionPercentage":
            "“Used, in percent” must be empty for a subscription that renews: Apple computes it."
        case "refundPreference":
            "A refund of a part can be preferred only if “Used, in percent” is from 1 to 99."
        default: problem.description.asSentence
        }
    }
}
