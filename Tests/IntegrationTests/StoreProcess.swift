import Foundation
import TestSupport

/// The simulated App Store in a process of its own.
final class StoreProcess {
    private let process = Process()
    private let output = Pipe()

    /// - Parameter arguments: Further arguments of `store-simulator`.
    init(_ arguments: [String]) throws {
        process.executableURL = ServerProcess.simulator
        process.arguments = ["--serve-store", "0"] + arguments
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        try process.run()
    }

    /// The base URL that the store prints once it accepts connections.
    func address() throws -> String {
        let limit = process.killed(after: 60)
        defer { limit.cancel() }
        var text = ""
        while !text.contains("\n") {
            let data = output.fileHandleForReading.availableData
            guard !data.isEmpty else { throw CocoaError(.fileReadUnknown) }
            text += String(decoding: data, as: UTF8.self)
        }
        return String(text.prefix { $0 != "\n" })
    }

    func end() {
        try? process.end(within: 0)
    }
}
