import Console
import Encoding
import EventLog
import Readers

extension ConsoleRoutes {
    func overview(_ visit: ConsoleRequest) async throws -> Outcome {
        let system = try await reader.system()
        let refused = metrics.values(of: "subledger_notifications_refused_total").map { labels, value in
            // `reason="…"`, as the registry writes it.
            (reason: labels.split(separator: "\"").dropFirst().first.map(String.init) ?? labels, count: Int64(value))
        }
        guard let stream = visit.stream, stream.head > 0 else {
            return .page(
                OverviewPage(
                    state: nil, activity: nil, refused: refused, names: [:], system: system, active: nil, mrr: nil,
                    movements: nil, revenue: nil, address: visit.address))
        }
        let activity = try await reader.activity(of: stream, now: visit.now)
        async let active = quick(.active, stream, days: 2, visit.now)
        async let mrr = quick(.mrr, stream, days: 2, visit.now)
        async let movements = quick(.movements, stream, days: 1, visit.now)
        async let revenue = quick(.revenue, stream, days: 1, visit.now)
        return .page(
            OverviewPage(
                state: stream, activity: activity, refused: refused,
                names: try await reader.productNames(of: [stream.app]), system: system, active: await active,
                mrr: await mrr, movements: await movements, revenue: await revenue, address: visit.address))
    }

    /// A figure of the last days, if it is there soon; nil if it takes longer. It goes on and is there the next time.
    private func quick(
        _ figure: FigureQuery, _ stream: StreamState, days: Int64, _ now: Instant
    ) async -> Result<FigureRows, FigureFailure>? {
        let from = now.advanced(byMilliseconds: -(days - 1) * 86_400_000).dayText
        let results = AsyncStream<Result<FigureRows, FigureFailure>?>.makeStream()
        Task {
            results.continuation.yield(
                await figures.rows(of: figure, in: stream, from: from, to: now.dayText, at: now))
        }
        let waiting = Task {
            try await Task.sleep(for: Limits.consoleFigureWait)
            results.continuation.yield(nil)
        }
        defer { waiting.cancel() }
        for await result in results.stream { return result }
        return nil
    }

    func system(_ visit: ConsoleRequest) async throws -> Outcome {
        let state = try await reader.system()
        let report = await HealthReport(of: health)
        let conditions = report.conditions.compactMap { condition in
            condition.state.detail.map { (name: condition.name, detail: $0) }
        }
        return .page(
            SystemPage(
                state: state, streams: visit.streams, conditions: conditions, now: visit.now, address: visit.address))
    }

    func figure(_ visit: ConsoleRequest, name: String) async throws -> Outcome {
        guard let figure = FigurePage.Figure(rawValue: name) else {
            throw ConsoleProblem(
                .notFound, "No such figure", "The figures are:",
                choices: FigurePage.Figure.allCases.map {
                    ($0.title, visit.frame.here(Address("figures", $0.rawValue)))
                })
        }
        let stream = try visit.someStream()
        let isDetail = try visit.query.text("rows") != nil
        let (askedFrom, askedTo) = (try visit.query.day("from"), try visit.query.day("to"))
        let choice = try Self.choice(of: figure, isDetail: isDetail, visit.query)
        let days = figure.isByDay ? Limits.consoleFigureDays : 4 * Limits.consoleFigureDays
        func start(_ end: Instant) -> String { end.advanced(byMilliseconds: -days * 86_400_000).dayText }
        // Rows are those of one day, unless the request says otherwise.
        var (from, to) = (
            askedFrom ?? start(visit.now), askedTo ?? (isDetail ? askedFrom : nil) ?? visit.now.dayText
        )
        guard from <= to else {
            throw ConsoleProblem(.badRequest, "Bad request", "from must not be later than to.")
        }
        let query = isDetail ? figure.detail : figure.query
        var result = await figures.rows(of: query, in: stream, from: from, to: to, choice: choice, at: visit.now)
        var isShifted = false
        if askedFrom == nil, askedTo == nil, case .success(let found) = result, found.hasNothing,
            let last = try await reader.events([stream.head], in: stream).first
        {
            let end = min(last.occurredAt ?? last.receivedAt, visit.now)
            (from, to) = (start(end), end.dayText)
            result = await figures.rows(of: query, in: stream, from: from, to: to, choice: choice, at: visit.now)
            isShifted = true
        }
        return .page(
            FigurePage(
                figure: figure, from: from, to: to, choice: choice, isDetail: isDetail, isShifted: isShifted,
                result: result, now: visit.now, address: visit.address))
    }

    /// The currency and the parts that the request names.
    private static func choice(
        of figure: FigurePage.Figure, isDetail: Bool, _ query: ConsoleQuery
    ) throws(ConsoleProblem) -> FigureChoice {
        var choice = FigureChoice(
            currency: try query.text("currency"), into: isDetail ? try query.text("into") : nil,
            part: isDetail ? try query.text("part") : nil)
        if let by = try query.text("by") {
            guard let part = FigureChoice.Part(rawValue: by), figure.parts.contains(part) else {
                throw ConsoleProblem(
                    .badRequest, "Bad request",
                    figure.parts.isEmpty
                        ? "The figure is not split."
                        : "by must be \(figure.parts.map(\.rawValue).joined(separator: ", ")).")
            }
            choice.by = part
        }
        if let into = choice.into, into.utf8.count != 3 || !into.utf8.allSatisfy({ (65...90).contains($0) }) {
            throw ConsoleProblem(.badRequest, "Bad request", "into must be a code such as EUR.")
        }
        if let currency = choice.currency {
            let isCode = currency.utf8.count == 3 && currency.utf8.allSatisfy { (65...90).contains($0) }
            guard isCode && figure.isConvertible || isDetail else {
                throw ConsoleProblem(
                    .badRequest, "Bad request",
                    figure.isConvertible ? "currency must be a code such as EUR." : "The figure has no currency.")
            }
        }
        return choice
    }
}
