import Foundation

/// Asks the operator before something is changed at the store.
struct Confirmation: Sendable {
    /// Whether the operator can be asked.
    let isTerminal: Bool
    private let ask: @Sendable (String) -> String?

    /// Asks on the terminal.
    static let terminal = Confirmation(isTerminal: isatty(STDIN_FILENO) == 1) { question in
        FileHandle.standardError.write(Data(question.utf8))
        return readLine()
    }

    /// - Parameter ask: Shows a question and returns the answer; nil at the end of the input.
    init(isTerminal: Bool, ask: @escaping @Sendable (String) -> String?) {
        self.isTerminal = isTerminal
        self.ask = ask
    }

    /// Whether the operator agrees to what the lines say. Only the whole word does.
    func agrees(to lines: [String]) -> Bool {
        let question = lines.map { $0 + "\n" }.joined() + "Type yes to continue: "
        return ask(question)?.trimmingCharacters(in: .whitespaces) == "yes"
    }
}
