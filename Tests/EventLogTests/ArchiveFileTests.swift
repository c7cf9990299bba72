import Crypto
import Foundation
import Subscriptions
import TestSupport
import Testing

@testable import EventLog

@Suite("An archive file gives each body back, and shows every change")
struct ArchiveFileTests {
    private static let label = ArchiveFile.Label(
        stream: StreamKey(app: "com.example.app", environment: .production), month: "2026-03")

    private struct Written {
        let folder: String
        let record: ArchiveFileWriter.Record
        var path: String { "\(folder)/\(record.name)" }

        func open() throws -> ArchiveFile { try ArchiveFile(record.name, in: folder) }

        /// As the database lists it.
        func listed(_ stream: StreamKey = ArchiveFileTests.label.stream) -> ListedArchive {
            ListedArchive(
                streamId: 1, stream: stream, month: "2026-03", name: record.name, state: .kept, digest: record.digest,
                bytes: record.bytes, bodies: record.bodies, positions: record.first...record.last)
        }
    }

    /// Positions with gaps, and bodies of all lengths; those of every seventh position are erased.
    private static let bodies: [(position: Int64, stored: [UInt8])] = (1...40).map { number in
        let position = Int64(number * number)
        let text =
            number % 7 == 0 ? [] : Array("{\"number\":\(number)}".utf8) + [UInt8](repeating: 0x20, count: number * 9)
        return (position, text)
    }

    private static func with(_ test: (Written) throws -> Void) throws {
        let folder = TestFolder.path("archive-file")
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        var writer = try ArchiveFileWriter("a.bodies", label, in: folder)
        for body in bodies {
            try writer.append(
                position: body.position, digest: Array(SHA256.hash(data: body.stored)), stored: body.stored)
        }
        let header = Array("eyJhbGciOiJFUzI1NiJ9".utf8)
        let record = try writer.finish(headers: [Array(SHA256.hash(data: header)): header])
        try test(Written(folder: folder, record: record))
    }

    @Test("each body is found by its position, and no other")
    func found() throws {
        try Self.with { written in
            let file = try written.open()

            #expect(file.label == Self.label)
            #expect(file.count == 40 && file.headers.count == 1)
            #expect(written.record.empty == 5)
            #expect(try file.digest() == written.record.digest)
            #expect(try FileManager.default.contentsOfDirectory(atPath: written.folder) == ["a.bodies"])
            for body in Self.bodies {
                let found = try #require(try file.body(at: body.position))
                #expect(found.stored == body.stored)
                #expect(found.digest == Array(SHA256.hash(data: body.stored)))
                if !body.stored.isEmpty {
                    #expect(try file.evidence(of: found, digest: found.digest) == body.stored)
                    #expect(throws: DamagedBody.digest) {
                        try file.evidence(of: found, digest: [UInt8](repeating: 0, count: 32))
                    }
                }
            }
            for position in [Int64.min, 0, 2, 1599, 1601, .max] { #expect(try file.body(at: position) == nil) }
        }
    }

    @Test("a changed bit anywhere, and a cut anywhere, is noticed, and nothing crashes")
    func damaged() throws {
        try Self.with { written in
            let whole = try #require(FileManager.default.contents(atPath: written.path))
            func isNoticed(_ bytes: Data) throws -> Bool {
                try bytes.write(to: URL(fileURLWithPath: written.path))
                // As one reader and another use it: the second one does not compare the whole.
                if let file = try? written.open() {
                    for number in 0..<min(file.count, 50) { _ = try? file.body(number: number) }
                    for body in Self.bodies { _ = try? file.body(at: body.position) }
                }
                return (try? written.listed().open(in: written.folder)) == nil
            }
            #expect(try !isNoticed(whole))
            var random = SeededGenerator(seed: TestSeed.value)
            // Every byte of the index and of the end, which lead to the others, and a sample of the rest.
            let places = Set(whole.indices.suffix(64 + 40 * 16)).union(
                (0..<200).map { _ in Int.random(in: 0..<whole.count, using: &random) })
            for place in places.sorted() {
                var changed = whole
                changed[place] ^= 1 << UInt8.random(in: 0...7, using: &random)
                #expect(try isNoticed(changed), "\(place) of \(whole.count)")
            }
            for length in [0, 1, 63, 64, 65, whole.count / 2, whole.count - 1] {
                #expect(try isNoticed(whole.prefix(length)), "cut to \(length)")
            }
            #expect(try isNoticed(whole + Data([0])))
        }
    }

    @Test("a file of another stream or month, and one that is not there, are told apart")
    func other() throws {
        try Self.with { written in
            let other = written.listed(StreamKey(app: "com.example.other", environment: .production))
            let isOther = #expect(throws: ArchiveError.self) { try other.open(in: written.folder) }
            #expect(
                isOther?.description
                    == "archive file a.bodies is not the one that the database lists: it has bodies of com.example.app "
                    + "(production), 2026-03")
            try FileManager.default.removeItem(atPath: written.path)
            let isMissing = #expect(throws: ArchiveError.self) { try written.open() }
            #expect(isMissing?.description == "archive file a.bodies is missing")
        }
    }

    @Test("a file that cannot be written is an error that names it")
    func unwritable() throws {
        let error = #expect(throws: ArchiveError.self) { _ = try Self.write(in: "/dev/null/none") }
        #expect(error?.description == "cannot write archive file /dev/null/none/a.bodies: Not a directory")
    }

    private static func write(in folder: String) throws(ArchiveError) -> ArchiveFileWriter.Record {
        var writer = try ArchiveFileWriter("a.bodies", label, in: folder)
        return try writer.finish(headers: [:])
    }
}
