import ArgumentParser
import Server

/// Names the program that the simulated stores have become.
struct Simulate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "The simulated stores are a program of their own: store-simulator.", shouldDisplay: false)

    @Argument(parsing: .captureForPassthrough) var arguments: [String] = []

    func run() async throws {
        printError("Error: simulate is no command of subledger: expected `store-simulator` with the same options.")
        throw ExitCode.validationFailure
    }
}
