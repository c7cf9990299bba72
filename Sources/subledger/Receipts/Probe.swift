import AppStore
import ArgumentParser
import EventLog
import Server
import StoreClient

struct Probe: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Let Apple post a test notification, and tell which step of its way into the log does not work.",
        discussion: """
            Prints each step: request (Apple accepts the key and has a notification URL), attempt (Apple has posted), \
            connection, TLS, route (Subledger answered), signature, log (the notification is stored). A server must be \
            running. Exit status 1 if the notification does not get into the log; 69 if the App Store or the database \
            cannot be asked; 78 if the key, the notification URL or the configured app is wrong.
            """)

    @OptionGroup var asking: StoreSessionFlags

    @Option(help: ArgumentHelp("The environment: production or sandbox.", valueName: "name"))
    var environment = "production"

    @Option(help: ArgumentHelp("How long to wait.", valueName: "seconds"))
    var wait = 60

    func validate() throws {
        guard StreamEnvironment(argument: environment).flatMap({ ReceiptHost(environment: $0.value) }) != nil else {
            throw ValidationError("--environment is unknown: expected production or sandbox.")
        }
        guard (1...3600).contains(wait) else {
            throw ValidationError("--wait is out of range: expected 1 to 3600.")
        }
    }

    func run() async throws {
        try await reportingFailures {
            guard let host = StreamEnvironment(argument: environment).flatMap({ ReceiptHost(environment: $0.value) })
            else { return }
            let problem = try await StoreSession.with(asking) { session in
                try await DeliveryProbe(
                    client: session.store.api, verifier: session.verifier,
                    deliveries: DeliveryLog(pool: session.poller), clock: session.store.clock
                ).run(session.app, on: host, within: .seconds(wait)) { print("ok      \($0.rawValue)") }
            }
            guard let problem else { return }
            print("failed  \(problem.step.rawValue): \(problem.text)")
            switch problem.cause {
            case .configuration: throw ExitCode.configurationError
            case .unavailable: throw ExitCode.unavailable
            case .delivery: throw ExitCode.failure
            }
        }
    }
}
