import Foundation
import TestSupport
import Testing

@Suite("A release is built from the packages in deploy/dependencies")
struct DependencyTests {
    private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    private static func text(_ path: String) throws -> String {
        try String(contentsOf: root.appendingPathComponent(path), encoding: .utf8)
    }

    /// The packages of the list: name, version, licence, URL and commit of each.
    private static func listed() throws -> [[String]] {
        try text("deploy/dependencies").split(separator: "\n").filter { !$0.hasPrefix("#") }
            .map { $0.split(separator: " ", omittingEmptySubsequences: false).map { String($0) } }
    }

    @Test("the list has each package once, with version and commit, and every package that Package.swift names")
    func list() throws {
        let packages = try Self.listed()

        for package in packages {
            try #require(package.count == 5, "\(package)")
            #expect(package[1].wholeMatch(of: /\d+\.\d+\.\d+/) != nil, "\(package)")
            #expect(package[3].hasPrefix("https://"), "\(package)")
            #expect(package[4].wholeMatch(of: /[0-9a-f]{40}/) != nil, "\(package)")
        }
        #expect(Set(packages.map { $0[0] }).count == packages.count)
        let named = try Self.text("Package.swift").matches(of: /\.package\(url: "([^"]*)"/).map { String($0.output.1) }
        #expect(named.count >= 10)
        #expect(Set(named).subtracting(packages.map { $0[3] }).isEmpty)
    }

    @Test("Package.resolved is written from the list, and a build with another commit or package is named")
    func resolved() throws {
        let folder = TestFolder.path("dependencies")
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try FileManager.default.createDirectory(atPath: "\(folder)/deploy", withIntermediateDirectories: true)
        for name in ["deploy/dependencies", "deploy/prerequisites", "deploy/resolved"] {
            try FileManager.default.copyItem(
                atPath: Self.root.appendingPathComponent(name).path, toPath: "\(folder)/\(name)")
        }
        let file = URL(fileURLWithPath: "\(folder)/Package.resolved")
        func run(_ arguments: String...) throws -> (status: Int32, output: String) {
            let result = try Process.run(
                URL(fileURLWithPath: "\(folder)/deploy/resolved"), arguments, joined: true)
            return (result.status, result.outputText)
        }

        let written = try run()
        #expect(written.status == 0, "\(written.output)")
        let json = try #require(try JSONSerialization.jsonObject(with: Data(contentsOf: file)) as? [String: Any])
        let pins = try #require(json["pins"] as? [[String: Any]])
        let packages = try Self.listed()
        #expect(pins.compactMap { $0["identity"] as? String } == packages.map { $0[0] })
        let states = pins.compactMap { $0["state"] as? [String: String] }
        #expect(states.map { $0["revision"] } == packages.map { $0[4] })
        #expect(states.map { $0["version"] } == packages.map { $0[1] })
        #expect(try run("--check").status == 0)

        // As SwiftPM writes the file.
        let spread = try JSONSerialization.data(withJSONObject: json, options: [.prettyPrinted, .sortedKeys])
        try spread.write(to: file)
        #expect(try run("--check").status == 0)
        let commit = packages[0][4]
        let moved = String(decoding: spread, as: UTF8.self).replacing(commit, with: String(commit.reversed()))
        try Data(moved.utf8).write(to: file)
        let differs = try run("--check")
        #expect(differs.status == 1)
        #expect(differs.output.contains("> \(packages[0][0]) \(packages[0][1]) \(String(commit.reversed()))"))
        var fewer = json
        fewer["pins"] = Array(pins.dropLast())
        try JSONSerialization.data(withJSONObject: fewer).write(to: file)
        #expect(try run("--check").status == 1)
    }
}
