import Foundation

/// A small app without a screen, with a store, clocks and a network that commands control: the driver of the client library
/// for `deploy/client-conformance`, and a sample of its use.
///
/// Reads a command from each line of standard input, and answers each with a line. The article Client protocol describes them.
@main
struct ClientSample {
    static func main() async {
        let decoder = JSONDecoder()
        decoder.dateDecodingStrategy = .secondsSince1970
        var app: SampleApp?
        while let line = readLine() {
            let command: Command
            do {
                command = try decoder.decode(Command.self, from: Data(line.utf8))
            } catch {
                FileHandle.standardError.write(Data("no command: \(error)\n".utf8))
                exit(64)
            }
            if command.name == "setup" {
                app = SampleApp(command)
                Output.write(Answer(isOk: app != nil, error: app == nil ? "malformed" : nil))
            } else if let app {
                Output.write(await app.answer(command))
            } else {
                Output.write(Answer(isOk: false, error: "not-set-up"))
            }
        }
        app?.end()
    }
}
