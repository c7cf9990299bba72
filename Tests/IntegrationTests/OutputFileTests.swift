import Foundation
import TestSupport
import Testing

@Suite("Output files are written in place")
struct OutputFileTests {
    @Test("an existing output file keeps its inode, so that a device such as /dev/null is not replaced")
    func staysInPlace() throws {
        let path = TestFolder.path("output")
        defer { try? FileManager.default.removeItem(atPath: path) }
        try String(repeating: "old", count: 10_000).write(toFile: path, atomically: false, encoding: .utf8)
        let before = try FileManager.default.attributesOfItem(atPath: path)[.systemFileNumber] as? Int

        let run = try ServerProcess.simulate(["--subscriptions", "1", "--expected", path])

        #expect(run.status == 0)
        let after = try FileManager.default.attributesOfItem(atPath: path)[.systemFileNumber] as? Int
        #expect(after == before)
        #expect(try String(contentsOfFile: path, encoding: .utf8).contains("old") == false)
    }
}
