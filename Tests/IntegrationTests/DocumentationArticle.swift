import Foundation
import TestSupport
import Testing

/// README or an article of the DocC catalog, parsed for the tests of the documentation.
struct DocumentationArticle: Sendable, CustomTestStringConvertible {
    let name: String
    let file: URL
    let text: String

    static let repository = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()
    static let catalog = repository.appendingPathComponent("Sources/subledger/Documentation.docc")

    var testDescription: String { name }

    init(_ name: String) throws {
        self.name = name
        file =
            name == "README"
            ? Self.repository.appendingPathComponent("README.md") : Self.catalog.appendingPathComponent("\(name).md")
        text = try String(contentsOf: file, encoding: .utf8)
    }

    /// README and every article.
    static func all() throws -> [DocumentationArticle] {
        let articles = try FileManager.default.contentsOfDirectory(atPath: catalog.path)
            .filter { $0.hasSuffix(".md") }.map { String($0.dropLast(3)) }.sorted()
        return try (["README"] + articles).map { try DocumentationArticle($0) }
    }

    /// A fenced block.
    struct Block: Sendable {
        let language: String
        let lines: [String]
        /// The reason in a comment `<!-- not run: reason -->` on the line before it; nil for a block that is run.
        let notRunBecause: String?
        /// Whether only the full run of the tests runs it: a comment `<!-- run with --all: reason -->` says why.
        let isLong: Bool

        var isCommands: Bool { language == "console" || language == "sh" }
    }

    /// A command with the lines that the article prints below it.
    struct Step: Sendable {
        var command: [String]
        var output: [String] = []

        /// Whether the next line of the block continues the command.
        var isUnfinished: Bool {
            let text = command.joined(separator: "\n")
            if let word = text.firstMatch(of: /<<(\w+)\n?/)?.output.1 { return command.last != String(word) }
            return text.hasSuffix("\\") || text.hasSuffix("|") || !text.count { $0 == "\"" }.isMultiple(of: 2)
        }
    }

    var blocks: [Block] {
        var blocks: [Block] = []
        var language: String?
        var lines: [String] = []
        var before = ""
        var reason: String?
        var isLong = false
        for line in text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init) {
            guard line.hasPrefix("```") else {
                if language == nil { before = line } else { lines.append(line) }
                continue
            }
            if let opened = language {
                blocks.append(Block(language: opened, lines: lines, notRunBecause: reason, isLong: isLong))
                language = nil
                before = ""
            } else {
                language = String(line.dropFirst(3))
                lines = []
                reason = before.wholeMatch(of: /<!-- not run: (.+) -->/).map { String($0.output.1) }
                isLong = before.wholeMatch(of: /<!-- run with --all: (.+) -->/) != nil
            }
        }
        return blocks
    }

    /// The commands of all blocks that are run, in order.
    var steps: [Step] {
        blocks.filter { $0.isCommands && $0.notRunBecause == nil && (TestScale.isFull || !$0.isLong) }
            .flatMap(Self.steps)
    }

    static func steps(of block: Block) -> [Step] {
        var steps: [Step] = []
        for line in block.lines {
            if let last = steps.indices.last, steps[last].isUnfinished {
                steps[last].command.append(line)
            } else if line.hasPrefix("$ ") {
                steps.append(Step(command: [String(line.dropFirst(2))]))
            } else if let last = steps.indices.last {
                steps[last].output.append(line)
            }
        }
        return steps
    }

    /// The text without fenced blocks.
    private var prose: String {
        text.replacing(/(?m)^```[\s\S]*?^```/, with: "")
    }

    /// Code within lines, on one line each.
    var code: [String] {
        prose.matches(of: /`([^`]+)`/).map { $0.output.1.split(whereSeparator: \.isWhitespace).joined(separator: " ") }
    }

    /// Targets of links to other files and headings of this repository.
    var links: [String] {
        prose.matches(of: /\]\(([^)]+)\)/).map { String($0.output.1) }.filter { !$0.hasPrefix("http") }
            + prose.matches(of: /<doc:(\w+)>/).map { "\($0.output.1).md" }
    }

    /// Headings in the anchor format of code hosts.
    var anchors: Set<String> {
        Set(
            prose.matches(of: /(?m)^#+ (.+)$/).map { match in
                match.output.1.lowercased().filter { $0.isLetter || $0.isNumber || " -_".contains($0) }
                    .replacing(" ", with: "-")
            })
    }

    /// Files of the repository that the text names, in prose and commands.
    var files: Set<String> {
        Set(
            text.matches(of: /(?:^|[\s`@"])((?:Sources|Tests|deploy)\/[\w.*\/+-]+|schema\.sql|Package\.swift)/)
                .map { String($0.output.1) })
    }

    /// Suites that the text names in `deploy/test --filter …`.
    var suites: Set<String> {
        Set(
            text.matches(of: /--filter '?([\w\\|]+)/).flatMap { match in
                match.output.1.replacing("\\", with: "").split(separator: "|").map(String.init)
            })
    }
}
