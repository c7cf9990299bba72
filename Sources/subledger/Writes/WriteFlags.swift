import ArgumentParser
import Foundation
import Subscriptions

/// The flags of a command that changes something at the store.
struct WriteFlags: ParsableArguments {
    @Option(help: ArgumentHelp("The reason, which is recorded with the request.", valueName: "text"))
    var reason: String

    @Option(
        help: ArgumentHelp(
            "The operator, recorded with the request. [the user of the operating system]", valueName: "name"))
    var by: String?

    @Flag(help: "Do not ask before the change is requested.")
    var yes = false

    private static let textBytesMax = 500

    var operatorName: String { by ?? NSUserName() }

    func validate() throws {
        try Self.check(reason, "--reason")
        if let by { try Self.check(by, "--by") }
        guard yes || Confirmation.terminal.isTerminal else {
            throw ValidationError("There is no terminal to ask on: pass --yes to make the change without asking.")
        }
    }

    /// Writes go to the App Store, which has two environments.
    static func check(_ environment: StreamEnvironment?) throws {
        guard let environment else { return }
        guard [.production, .sandbox].contains(environment.value) else {
            throw ValidationError("--environment is unknown: expected production or sandbox.")
        }
    }

    static func check(_ text: String, _ flag: String) throws {
        guard text.contains(where: { !$0.isWhitespace }), text.utf8.count <= textBytesMax,
            !text.unicodeScalars.contains(where: { $0.value < 32 || $0.value == 127 })
        else {
            throw ValidationError("\(flag) must be a line of 1 to \(textBytesMax) bytes.")
        }
    }
}

/// The id of a request, if the operator has chosen one.
enum RequestIdentifier {
    static func isUUID(_ text: String) -> Bool { UUID(uuidString: text) != nil }

    static func made() -> String { UUID().uuidString.lowercased() }
}
