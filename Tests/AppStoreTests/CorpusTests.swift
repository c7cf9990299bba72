import DecoderProperties
import Foundation
import TestSupport
import Testing

@Suite("Decoder and verifier on the fuzzer's corpus, the fixtures and mutations of both")
struct CorpusTests {
    private static let mutationsPerInput = 100

    @Test("every known input keeps the properties of decoder and verifier", arguments: try KnownInput.all())
    func known(input: KnownInput) async throws {
        try await check(input.bytes)
    }

    @Test("every mutated input keeps the properties of decoder and verifier", arguments: try KnownInput.all())
    func mutations(input: KnownInput) async throws {
        var mutator = try Mutator(of: input, among: KnownInput.all())

        for number in 1...Self.mutationsPerInput {
            let mutated = mutator.next()
            do {
                try await check(mutated)
            } catch let broken as BrokenPromise {
                Issue.record("mutation \(number): \(broken): base64 \(Data(mutated).base64EncodedString())")
            }
        }
    }

    private func check(_ input: [UInt8]) async throws {
        let check = DecoderCheck(input)
        try await check.verify(try check.decode())
    }
}

/// A file of the fuzzer's corpus or of the fixtures.
struct KnownInput: Sendable, CustomTestStringConvertible {
    let name: String
    let bytes: [UInt8]

    var testDescription: String { name }

    static let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()

    /// The same files that deploy/fuzz starts from, sorted by name.
    static func all() throws -> [KnownInput] {
        try ["FuzzDecoder/Corpus", "AppStoreTests/Fixtures"].flatMap { folder in
            let files = try FileManager.default.contentsOfDirectory(
                at: tests.appendingPathComponent(folder), includingPropertiesForKeys: nil)
            return try files.map { KnownInput(name: $0.lastPathComponent, bytes: Array(try Data(contentsOf: $0))) }
                .sorted { $0.name < $1.name }
        }
    }
}

/// Makes inputs that differ from a known input in a few places. The same seed makes the same inputs.
struct Mutator {
    private let original: [UInt8]
    /// Pieces to insert: the words of the fuzzer's dictionary, and other known inputs.
    private let words: [[UInt8]]
    private let others: [[UInt8]]
    private var random: SeededGenerator

    init(of input: KnownInput, among inputs: [KnownInput]) throws {
        original = input.bytes
        others = inputs.map(\.bytes).filter { !$0.isEmpty }
        words = try Self.dictionary()
        random = TestSeed.generator(input.bytes.reduce(0) { ($0 &* 31 &+ Int($1)) & 0xFFFF })
    }

    mutating func next() -> [UInt8] {
        var bytes = original
        for _ in 1...Int.random(in: 1...4, using: &random) { mutate(&bytes) }
        return bytes
    }

    private mutating func mutate(_ bytes: inout [UInt8]) {
        let place = Int.random(in: 0...bytes.count, using: &random)
        let range = place..<min(bytes.count, place + Int.random(in: 1...32, using: &random))
        switch Int.random(in: 0..<6, using: &random) {
        case 0 where place < bytes.count: bytes[place] ^= 1 << UInt8.random(in: 0..<8, using: &random)
        case 1: bytes.removeSubrange(range)
        case 2: bytes.insert(contentsOf: Array(bytes[range]), at: Int.random(in: 0...bytes.count, using: &random))
        case 3: bytes.insert(UInt8.random(in: .min ... .max, using: &random), at: place)
        case 4: bytes.insert(contentsOf: piece(), at: place)
        default: bytes.insert(contentsOf: words.randomElement(using: &random) ?? [], at: place)
        }
    }

    private mutating func piece() -> [UInt8] {
        guard let input = others.randomElement(using: &random) else { return [] }
        let start = Int.random(in: 0..<input.count, using: &random)
        return Array(input[start...].prefix(Int.random(in: 1...64, using: &random)))
    }

    /// The words of libFuzzer's dictionary: one in quotes on each line, with escapes as in C.
    private static func dictionary() throws -> [[UInt8]] {
        let file = KnownInput.tests.appendingPathComponent("FuzzDecoder/apple.dict")
        return try String(contentsOf: file, encoding: .utf8).split(separator: "\n").filter { $0.hasPrefix("\"") }.map {
            var word: [UInt8] = []
            var rest = Array($0.utf8)[1..<($0.utf8.count - 1)]
            while let byte = rest.popFirst() {
                guard byte == UInt8(ascii: "\\"), let escaped = rest.popFirst() else {
                    word.append(byte)
                    continue
                }
                guard escaped == UInt8(ascii: "x") else {
                    word.append(escaped)
                    continue
                }
                word.append(try #require(UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16)))
                rest = rest.dropFirst(2)
            }
            return word
        }
    }
}
