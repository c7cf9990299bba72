import AppStore
import ArgumentParser
import Foundation
import Subscriptions

struct Inspect: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Show what notification bodies say, normalised: one JSON object a line.",
        discussion: """
            Needs no database and no network, and does not check where a body came from. A file that cannot be a \
            notification is named on stderr, the others are still shown, and the exit status is 65.
            """)

    @Argument(help: ArgumentHelp("Files with one body each; - is standard input.", valueName: "file"))
    var files: [String]

    func run() throws {
        var hasFailed = false
        for file in files {
            do {
                guard let body = InputFile.read(file) else { throw Unreadable() }
                print(try inspect(body, file))
            } catch {
                printError("\(file): \(error)")
                hasFailed = true
            }
        }
        if hasFailed { throw ExitCode.dataError }
    }

    private func inspect(_ body: [UInt8], _ file: String) throws -> String {
        let notification = try AppleNotification(decoding: body)
        let event = notification.event(receivedAt: Clock.now())
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("file", file)
            event.writeMembers(to: &writer)
        }
        return writer.text
    }

    private struct Unreadable: Error, CustomStringConvertible {
        let description = InputFile.unreadable
    }
}
