import AppStore
import ArgumentParser
import Encoding
import Foundation
import StoreClient
import TestSupport
import Testing

@testable import subledger

@Suite("receipt verify prints what Apple says about a file")
struct ReceiptInspectionTests {
    private static func inspect(_ bytes: [UInt8]?, _ store: ScriptedStore) async -> ReceiptInspection.Result {
        let inspection = ReceiptInspection(
            client: ReceiptClient(
                transport: store, clock: StoreClock(date: { TestBundle.now }), random: { 0 },
                logger: LogRecorder().logger),
            app: App(bundleId: V1Body.app, sharedSecrets: [V1Body.secret]), now: { TestBundle.now })
        return await inspection.inspect(bytes, "receipt.txt")
    }

    private static let base64 = ReceiptSample.receipt(1)

    @Test("a receipt is printed with its checks, one line, and a line for each row", arguments: [true, false])
    func rows(isText: Bool) async throws {
        let store = ScriptedStore()
        store.answer(Self.base64, ReceiptSample.answer())
        let raw = Array(try #require(Data(base64Encoded: Self.base64)))
        let bytes = isText ? Array("\(Self.base64)\n".utf8) : raw

        let result = await Self.inspect(bytes, store)

        #expect(result.problem == nil)
        #expect(result.lines.count == 3)
        #expect(
            result.lines.first
                == #"{"file":"receipt.txt","app":"com.example.magazine","environment":"production","checks":"#
                + #"{"genuine":{"result":true,"status":0},"ofThisApp":true,"inForce":true}}"#)
        #expect(result.lines[1].hasPrefix(#"{"file":"receipt.txt","transaction":{"#))
        #expect(result.lines[1].contains("70000000000001"))
        #expect(result.lines[2].hasPrefix(#"{"file":"receipt.txt","renewal":{"#))
    }

    @Test("a receipt that Apple refuses is printed with its status, and exits with 65")
    func refused() async throws {
        let result = await Self.inspect(Array(Self.base64.utf8), ScriptedStore())

        #expect(
            result.lines == [
                #"{"file":"receipt.txt","app":"com.example.magazine","checks":{"genuine":{"result":false,"status":21003}}}"#
            ])
        #expect(result.problem?.exitCode == .dataError)
        #expect(result.problem?.description.contains("status 21003") == true)
    }

    @Test("a receipt of another app fails the second check")
    func otherApp() async throws {
        let store = ScriptedStore()
        store.answer(Self.base64, ReceiptSample.answer(app: "com.example.other"))

        let result = await Self.inspect(Array(Self.base64.utf8), store)

        #expect(result.lines.count == 1)
        #expect(result.lines.first?.contains(#""ofThisApp":false"#) == true)
        #expect(result.problem?.exitCode == .dataError)
    }

    @Test("a store that does not answer exits with 69, and a rejected secret with 78")
    func notAsked() async throws {
        let store = ScriptedStore()
        store.fail(4)
        let unavailable = await Self.inspect(Array(Self.base64.utf8), store)
        store.answer(Self.base64, #"{"status":21004}"#)
        let secret = await Self.inspect(Array(Self.base64.utf8), store)

        #expect(unavailable.lines.isEmpty)
        #expect(unavailable.problem?.exitCode == .unavailable)
        #expect(secret.lines.isEmpty)
        #expect(secret.problem?.exitCode == .configurationError)
        #expect(secret.problem.map { !$0.description.contains(V1Body.secret) } == true)
    }

    @Test(
        "files that are no receipt exit with 65 and are not asked about",
        arguments: ["", " \n", "MII é", "MI-_", "x y"])
    func noReceipt(_ text: String) async throws {
        let store = ScriptedStore()

        let result = await Self.inspect(Array(text.utf8), store)
        let missing = await Self.inspect(nil, store)

        #expect(result.problem?.exitCode == .dataError)
        #expect(result.lines.isEmpty)
        #expect(missing.problem?.description == "cannot read file")
        #expect(store.requests.isEmpty)
    }

    @Test("the app must be configured, and be named if there are several")
    func apps() throws {
        let file = "/tmp/sl-receipt-apps-\(getpid()).json"
        defer { try? FileManager.default.removeItem(atPath: file) }
        try #"[{"bundleId":"com.example.a"},{"bundleId":"com.example.b"}]"#
            .write(toFile: file, atomically: true, encoding: .utf8)

        let none = try ServerProcess.run(["receipt", "verify", "-"])
        let several = try ServerProcess.run(["receipt", "verify", "--apps-file", file, "-"])
        let other = try ServerProcess.run(
            ["receipt", "verify", "--apps-file", file, "--app", "com.example.c", "-"])
        let empty = try ServerProcess.run(
            ["receipt", "verify", "--apps-file", file, "--app", "com.example.a", "-"], input: Data())

        #expect(none.status == 78)
        #expect(none.error.contains("no app is configured"))
        #expect(several.status == 78)
        #expect(several.error.contains("choose one with --app"))
        #expect(other.status == 78)
        #expect(other.error.contains("com.example.c is not configured"))
        #expect(empty.status == 65)
        #expect(empty.error == "-: the receipt is empty\n")
    }
}
