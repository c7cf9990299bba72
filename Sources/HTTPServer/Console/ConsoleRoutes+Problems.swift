import Console
import EventLog
import Hummingbird
import Outbound
import Subscriptions

extension ConsoleRoutes {
    /// What a person is told about an error, with the status that the API has for it. Logs what an operator has to look at.
    func problem(_ error: any Error) -> ConsoleProblem {
        switch error {
        case let problem as ConsoleProblem: return problem
        case let malformed as RequestQuery.Malformed:
            return ConsoleProblem(.badRequest, "Bad request", malformed.problem)
        case let malformed as GrantStatement.Malformed:
            return ConsoleProblem(.badRequest, "Not done", malformed.description.asSentence)
        case let failure as BodyReader.Failure:
            let problem = Problem(failure)
            return ConsoleProblem(problem.status, "Not done", problem.detail.asSentence)
        case let error as OrderQuestions.TooMany:
            return ConsoleProblem(.tooManyRequests, "Not asked", error.description.asSentence)
        case let error as AppendError:
            return ConsoleProblem(error.status, error == .outcomeUnknown ? "Not known" : "Not done", error.consoleWords)
        case let error as EndpointRefusal: return problem(error)
        case let error as ReadError:
            if case .damaged(let detail) = error { logger.error("read failed", metadata: ["error": "\(detail)"]) }
            return ConsoleProblem(
                Problem(error).status, "Not available",
                "At \(now().shortText) UTC: \(error.description). Notifications are answered with 503, so the store sends "
                    + "them again.")
        default:
            logger.error("request failed", metadata: ["error": "\(type(of: error))"])
            return ConsoleProblem(.internalServerError, "Not shown", "An internal error: see the server’s log.")
        }
    }

    private func problem(_ refusal: EndpointRefusal) -> ConsoleProblem {
        switch refusal {
        case .database(let error): return problem(error)
        case .unknown:
            return ConsoleProblem(
                .notFound, "No such endpoint", "\(refusal).", choices: [("Deliveries", Address("deliveries"))])
        case .malformed: return ConsoleProblem(.badRequest, "Bad request", "\(refusal).")
        case .keys(let problem):
            logger.error("webhook keys failed", metadata: ["error": "\(problem)"])
            return ConsoleProblem(
                .internalServerError, "Not done", "The webhook keys cannot be read or written: see the server log.")
        case .unknownApp, .full, .requestKeyUsed, .noKeyFile, .noKey, .noSecret, .isForward:
            return ConsoleProblem(.conflict, "Not done", "\(refusal).")
        }
    }
}

extension AppendError {
    /// What it means for who sent a form.
    fileprivate var consoleWords: String {
        switch self {
        case .queueFull: "Too much is waiting to be stored. Nothing was done: try again in a moment."
        case .unavailable: "The database is unavailable. Nothing was done: try again later."
        case .outcomeUnknown:
            "The database did not confirm that it is stored, so it may be done or not. Look at the page before you try again."
        case .refused: "The database refused to store it. Nothing was done: see the server’s log."
        }
    }
}

extension String {
    /// With a capital letter and a full stop.
    var asSentence: String { "\(prefix(1).uppercased())\(dropFirst())\(hasSuffix(".") ? "" : ".")" }
}
