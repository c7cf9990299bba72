import Crypto
import CryptoExtras
import Encoding
import Foundation
import Testing

@testable import PlayStore

@Suite("Access to the Google Play Developer API")
struct PlayAccessTests {
    func keyFile() -> [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("type", "service_account")
            writer.member("client_email", "ledger@example.iam.gserviceaccount.com")
            writer.member("private_key_id", "key-1")
            writer.member("private_key", TestKeys.first.pemRepresentation)
            writer.member("token_uri", "https://oauth2.googleapis.com/token")
        }
        return writer.bytes
    }

    @Test("is requested with an assertion that is dated a minute back and ends within the hour")
    func assertion() throws {
        let account = try ServiceAccount(keyFile: keyFile())
        let request = try AccessTokenRequest(account, at: TestKeys.now)
        let form = String(decoding: request.body, as: UTF8.self)
        let assertion = try #require(form.split(separator: "&").last?.dropFirst("assertion=".count))
        let parts = assertion.split(separator: ".").map { Array($0.utf8) }
        let claims = try JSONDocument(try #require(Base64.decode(parts[1][...], .url))).root
        let header = try JSONDocument(try #require(Base64.decode(parts[0][...], .url))).root
        let signature = try #require(Base64.decode(parts[2][...], .url))
        let seconds = TestKeys.now.milliseconds / 1000

        #expect(request.url == "https://oauth2.googleapis.com/token")
        #expect(form.hasPrefix("grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion="))
        #expect(header.string("alg") == "RS256")
        #expect(header.string("kid") == "key-1")
        #expect(claims.string("iss") == "ledger@example.iam.gserviceaccount.com")
        #expect(claims.string("scope") == "https://www.googleapis.com/auth/androidpublisher")
        #expect(claims.string("aud") == "https://oauth2.googleapis.com/token")
        #expect(claims["iat"]?.int64 == seconds - 60)
        #expect(claims["exp"]?.int64 == seconds - 60 + 3000)
        #expect(claims["sub"] == nil)
        #expect(
            TestKeys.first.publicKey.isValidSignature(
                _RSA.Signing.RSASignature(rawRepresentation: signature),
                for: SHA256.hash(data: parts[0] + [0x2E] + parts[1]), padding: .insecurePKCS1v1_5))
    }

    @Test("is requested with a refresh token as a form")
    func refresh() {
        let request = AccessTokenRequest(
            RefreshToken(
                clientId: "c 1", clientSecret: "s&2", token: "1//t",
                tokenURL: "https://accounts.google.com/o/oauth2/token"))

        #expect(
            String(decoding: request.body, as: UTF8.self)
                == "grant_type=refresh_token&client_id=c%201&client_secret=s%262&refresh_token=1%2F%2Ft")
        #expect(request.url == "https://accounts.google.com/o/oauth2/token")
    }

    @Test(
        "lasts until five minutes before the end of its token",
        arguments: [
            (#"{"access_token":"a","expires_in":3599,"token_type":"Bearer"}"#, 3299),
            (#"{"access_token":"a","expires_in":"3600"}"#, 3300),
            (#"{"access_token":"a","expires_in":60}"#, 30), (#"{"access_token":"a"}"#, 0),
        ] as [(String, Int64)])
    func lifetime(body: String, seconds: Int64) throws {
        let token = try AccessToken(decoding: Array(body.utf8), receivedAt: TestKeys.now)

        #expect(token.renewAt == TestKeys.now.advanced(byMilliseconds: seconds * 1000))
    }

    @Test(
        "is denied for one of four reasons",
        arguments: [
            (
                400, #"{"error":"invalid_grant","error_description":"Invalid JWT Signature."}"#,
                AccessTokenRefusal.Kind.grant
            ),
            (400, #"{"error":"invalid_scope"}"#, .configuration), (401, #"{"error":"invalid_client"}"#, .configuration),
            (403, #"{"error":"access_denied"}"#, .configuration),
            (401, #"{"error":"unauthorized_client"}"#, .configuration),
            (500, "<html>", .temporary), (503, "", .temporary), (429, "{}", .temporary),
            (400, "<html>", .configuration),
        ] as [(Int, String, AccessTokenRefusal.Kind)])
    func refusals(status: Int, body: String, kind: AccessTokenRefusal.Kind) {
        #expect(AccessTokenRefusal(httpStatus: status, body: Array(body.utf8)).kind == kind)
    }

    @Test("is not granted by an answer that is cut off")
    func cutOff() {
        #expect(throws: AccessTokenRefusal.self) {
            try AccessToken(decoding: Array(#"{"access_token":"a"#.utf8), receivedAt: TestKeys.now)
        }
    }

    @Test("needs a whole key file")
    func keyFiles() {
        #expect(throws: ServiceAccount.Problem.notJSON) { try ServiceAccount(keyFile: []) }
        #expect(throws: ServiceAccount.Problem.missing("client_email")) {
            try ServiceAccount(keyFile: Array("{}".utf8))
        }
        let file = #"{"client_email":"a","private_key_id":"b","private_key":"c"}"#
        #expect(throws: ServiceAccount.Problem.notAKey) { try ServiceAccount(keyFile: Array(file.utf8)) }
    }
}
